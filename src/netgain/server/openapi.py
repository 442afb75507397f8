"""The description of the API (OpenAPI 3.1), made from the endpoints and the types they use."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from pydantic.json_schema import models_json_schema

from netgain._version import __version__
from netgain.server.endpoints import EVENTS, Endpoint
from netgain.server.errors import ErrorBody
from netgain.server.fields import Fields
from netgain.server.protocol import IGNORED_FIELDS, UNBUILT_FIELDS, Generation

Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_REF_PYDANTIC: Final = "#/components/schemas/{model}"
_KEY: Final = "apiKey"


def describe(endpoints: Sequence[Endpoint], *, with_key: bool) -> Schema:
    """The whole description; `with_key`: guarded endpoints ask for the API key."""
    schemas = request_schemas(endpoints)
    kinds = {ErrorBody}.union(
        *(kinds for endpoint in endpoints for kinds in endpoint.answers.values())
    )
    _, answers = msgspec.json.schema_components(kinds, ref_template=_REF)
    twice = schemas.keys() & answers.keys()
    assert not twice, f"two schemas share a name: {twice}"
    paths: Schema = {}
    for endpoint in endpoints:
        described = _operation(endpoint, with_key=with_key)
        paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = described
    components: Schema = {"schemas": {**schemas, **answers}}
    if with_key:
        components["securitySchemes"] = {_KEY: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "netgain", "version": __version__},
        "paths": paths,
        "components": components,
    }


def request_schemas(endpoints: Sequence[Endpoint]) -> dict[str, Schema]:
    """The schemas of the request bodies and their parts, by name."""
    bodies = {endpoint.body for endpoint in endpoints if endpoint.body is not None}
    ordered = sorted(bodies, key=lambda body: body.__name__)
    _, made = models_json_schema(
        [(body, "validation") for body in ordered], ref_template=_REF_PYDANTIC
    )
    schemas: dict[str, Schema] = made["$defs"]
    for body in ordered:
        if issubclass(body, Generation):
            _add_unserved(body, schemas[body.__name__])
    for schema in schemas.values():
        _close(schema)
        _allow_null(schema)
    return schemas


def _add_unserved(body: type[Fields], schema: Schema) -> None:
    """Fields that are accepted and change nothing, and those that must hold a harmless value."""
    properties = schema["properties"]
    for name in sorted(IGNORED_FIELDS):
        properties[name] = {"description": "accepted; changes nothing"}
    for name, unbuilt in UNBUILT_FIELDS.items():
        if name not in body.model_fields:
            properties[name] = {
                "enum": [*unbuilt.harmless, None],
                "description": f"not built: {unbuilt.advice}",
            }


def _close(schema: Schema) -> None:
    """Keys of another form than those an object describes are refused."""
    for field in schema.get("properties", {}).values():
        if "patternProperties" in field:
            field["additionalProperties"] = False


def _allow_null(schema: Schema) -> None:
    """A field that may be left out may be null."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name in required or field.get("type") == "null":
            continue
        null = {"type": "null"}
        if "enum" in field:
            if None not in field["enum"]:
                field["enum"] = [*field["enum"], None]
                field.pop("type", None)
        elif "anyOf" in field:
            if null not in field["anyOf"]:
                field["anyOf"].append(null)
        elif "$ref" in field:
            field["anyOf"] = [{"$ref": field.pop("$ref")}, null]
        elif "type" in field:
            about = {key: field.pop(key) for key in ("description", "default") if key in field}
            choice = dict(field)
            field.clear()
            field.update(about, anyOf=[choice, null])


def _operation(endpoint: Endpoint, *, with_key: bool) -> Schema:
    guarded = endpoint.guarded and with_key
    responses: Schema = {}
    for (status, media), kinds in endpoint.answers.items():
        response = responses.setdefault(str(status), {"description": _words(status), "content": {}})
        schema = _schema(kinds)
        response["content"][media] = {"schema": _event(schema) if media == EVENTS else schema}
    for status in sorted({*endpoint.errors, *((401,) if guarded else ())}):
        content = {"application/json": {"schema": _schema((ErrorBody,))}}
        responses.setdefault(str(status), {"description": _words(status), "content": content})
    name = endpoint.handler.__name__
    operation: Schema = {"summary": endpoint.summary, "operationId": name, "responses": responses}
    if endpoint.body is not None:
        content = {"application/json": {"schema": _schema((endpoint.body,))}}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.parameters:
        operation["parameters"] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": about,
                "schema": {"type": "string", "minLength": 1},
            }
            for name, about in endpoint.parameters.items()
        ]
    if guarded:
        operation["security"] = [{_KEY: []}]
    return operation


def _schema(kinds: Sequence[type]) -> Schema:
    """Any one of these types; text where there is none."""
    refs = [{"$ref": _REF.format(name=kind.__name__)} for kind in kinds]
    if not refs:
        return {"type": "string"}
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


def _event(data: Schema) -> Schema:
    """An event of a stream: JSON of such a form, or the mark of the end."""
    coded = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {
        "type": "object",
        "properties": {"data": {"anyOf": [{"const": "[DONE]"}, coded]}},
        "required": ["data"],
    }


def _words(status: int) -> str:
    return HTTPStatus(status).phrase
