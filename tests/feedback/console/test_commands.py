"""What commands record of who runs them."""

import os
from unittest.mock import patch

import pytest

from consumer.features.pausing.commands import _me
from feedback.console.commands import user_name


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no username set")])
def test_a_user_without_a_name_is_told_by_its_number(error: Exception) -> None:
    with patch("getpass.getuser", side_effect=error):
        assert user_name() == f"uid-{os.getuid()}"
        assert _me().startswith(f"uid-{os.getuid()}@")
