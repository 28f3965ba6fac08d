"""`python -m tests.kit.openid`: fetch the provider, for tests that come later.

Without Node.js it says so, and the one test that needs it is skipped.
"""

from onceward.servers.errors import StackError
from onceward.servers.packages import require
from tests.kit.openid import openid_folder

try:
    require(["node", "npm"])
except StackError as error:
    print(f"{error}: without it no login at a real OpenID Connect provider is tested")
else:
    openid_folder()
