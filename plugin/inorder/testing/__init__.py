"""Tools for tests of inorder, and of applications and adapters built on it: real servers and conformance suites."""
