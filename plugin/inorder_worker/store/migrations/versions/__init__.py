"""One module for each schema revision, named by it; a change of ``schema`` comes with one."""
