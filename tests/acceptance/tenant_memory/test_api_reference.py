"""Document C, "API Reference" and the lists of functions: names, arguments and fields are the document's."""

import inspect

from recollect import users

FUNCTIONS = {
    "add_message": "(user_id, role, content, tenant_id)",
    "get_conversation_history": "(user_id, tenant_id, limit=None, offset=0)",
    "get_recent_messages": "(user_id, tenant_id, count=10)",
    "count_messages": "(user_id, tenant_id)",
    "clear_conversation_history": "(user_id, tenant_id)",
    "delete_message": "(message_id, tenant_id)",
    "set_memory": "(user_id, key, value, tenant_id)",
    "get_memory": "(user_id, key, tenant_id)",
    "get_all_memory": "(user_id, tenant_id)",
    "delete_memory": "(user_id, key, tenant_id)",
    "clear_all_memory": "(user_id, tenant_id)",
    "set_user_state": "(user_id, mode, tenant_id)",
    "get_user_state": "(user_id, tenant_id)",
    "delete_user_state": "(user_id, tenant_id)",
}
OPTIONS = {"add_message": ["metadata", "id", "created_at", "expires_at"]}
"""What calls may add by keyword to the arguments of the document."""


def test_functions_are_those_of_document_c() -> None:
    """Names, the order of arguments and defaults are those of the document, and none is missing."""
    bare = {
        name: str(
            inspect.Signature(
                [
                    parameter.replace(annotation=inspect.Parameter.empty)
                    for parameter in parameters
                    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
                ]
            )
        )
        for name, parameters in _list_functions().items()
    }
    assert bare == FUNCTIONS


def test_what_is_beyond_document_c_is_optional_and_by_keyword() -> None:
    """A call as the document writes it means what the document says."""
    added = {
        name: options
        for name, parameters in _list_functions().items()
        if (options := [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY])
    }
    assert {name: [option.name for option in options] for name, options in added.items()} == OPTIONS
    assert all(option.default is None for options in added.values() for option in options)


def _list_functions() -> dict[str, list[inspect.Parameter]]:
    return {
        name: list(inspect.signature(getattr(users, name)).parameters.values())
        for name in users.__all__
        if inspect.isfunction(getattr(users, name)) and name != "connect"
    }


def test_models_have_the_fields_of_document_c() -> None:
    """The three models have the document's fields in its order."""
    fields = {
        model.__name__: list(model.model_fields)
        for model in (users.ConversationMessage, users.UserMemory, users.UserState)
    }
    assert fields == {
        "ConversationMessage": ["id", "tenant_id", "user_id", "role", "content", "created_at"],
        "UserMemory": ["id", "tenant_id", "user_id", "key", "value", "updated_at"],
        "UserState": ["tenant_id", "user_id", "mode", "updated_at"],
    }
