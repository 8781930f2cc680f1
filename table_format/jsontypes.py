"""The name for JSON objects, so that signatures say what is document and what is ours.

Values are checked where they enter (requirements, updates, wire models); below that a document is trusted.
"""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
