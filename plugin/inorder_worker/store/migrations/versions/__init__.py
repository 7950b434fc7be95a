"""One module for each revision, named by it; a change of ``schema`` comes with one."""
