"""Assertions of the suite explain themselves, as those of test files do."""

import pytest

pytest.register_assert_rewrite("inorder.testing.ens_conformance", "inorder.testing.ens_life")
