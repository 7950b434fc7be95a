"""What tests of inorder, and of applications and adapters built on it, need: real servers and conformance suites."""
