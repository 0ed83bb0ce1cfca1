/* SPDX-License-Identifier: Apache-2.0 - the OpenAPI document, from the table of routes. */
#include "api/internal.h"

#include <string.h>

static json_t *schema_of_object(const struct field *fields);

static json_t *schema(const struct field *f)
{
	json_t *s = NULL, *values;

	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_TEXTS:
		s = json_pack("{ss}", "type", "string");
		if (f->values) {
			values = json_array();
			for (const char *p = f->values; *p; p += *p == '|') {
				size_t n = strcspn(p, "|");

				json_array_append_new(values, json_stringn(p, n));
				p += n;
			}
			json_object_set_new(s, "enum", values);
		} else if (f->kind == FIELD_TEXT) {
			json_object_set_new(s, "minLength", json_integer(f->least));
			json_object_set_new(s, "maxLength", json_integer(f->most));
		}
		if (f->kind == FIELD_TEXTS)
			s = json_pack("{ss so sI sI}", "type", "array", "items", s, "minItems",
				(json_int_t)f->least, "maxItems", (json_int_t)f->most);
		break;
	case FIELD_INTEGER:
		s = json_pack("{ss sI sI}", "type", "integer", "minimum", (json_int_t)f->least,
			"maximum", (json_int_t)f->most);
		break;
	case FIELD_BOOLEAN:
		s = json_pack("{ss}", "type", "boolean");
		break;
	case FIELD_MAP:
		s = json_pack("{ss s{ss sb} sI}", "type", "object", "additionalProperties", "type",
			"string", "nullable", f->null, "maxProperties", (json_int_t)f->most);
		break;
	case FIELD_OBJECT:
		s = schema_of_object(f->fields);
		break;
	case FIELD_ANY:
		s = json_object();
		break;
	}
	if (f->null && f->kind != FIELD_MAP)
		json_object_set_new(s, "nullable", json_true());
	if (f->help)
		json_object_set_new(s, "description", json_string(f->help));
	return s;
}

static json_t *schema_of_object(const struct field *fields)
{
	json_t *properties = json_object(), *required = json_array();
	json_t *s = json_pack("{ss so sb}", "type", "object", "properties", properties,
		"additionalProperties", 0);

	for (const struct field *f = fields; f && f->name; f++) {
		json_object_set_new(properties, f->name, schema(f));
		if (f->required)
			json_array_append_new(required, json_string(f->name));
	}
	if (json_array_size(required))
		json_object_set(s, "required", required);
	json_decref(required);
	return s;
}

static void add_parameters(json_t *list, const struct route *route)
{
	for (const char *p = strchr(route->path, '{'); p; p = strchr(p, '{')) {
		size_t n = strcspn(++p, "}");

		json_array_append_new(
			list, json_pack("{ss% ss sb s{ss}}", "name", p, n, "in", "path", "required",
				      1, "schema", "type", "string"));
	}
	for (const struct field *f = route->query; f && f->name; f++)
		json_array_append_new(
			list, json_pack("{ss ss sb so}", "name", f->name, "in", "query", "required",
				      f->required, "schema", schema(f)));
}

/* "application/json|text/csv": what a success may be */
static json_t *contents(const char *types)
{
	json_t *all = json_object();
	const char *kind;
	size_t n;

	for (const char *p = types; *p; p += n, p += *p == '|') {
		n = strcspn(p, "|");
		kind = strncmp(p, "application/json", n) == 0 ? "object" : "string";
		json_object_setn_new(all, p, n, json_pack("{s{ss}}", "schema", "type", kind));
	}
	return all;
}

static json_t *operation(const struct route *route)
{
	json_t *parameters = json_array(), *o, *responses;
	char status[16];

	snprintf(status, sizeof(status), "%d", route->status ? route->status : 200);
	responses = json_pack("{s{ss so}}", status, "description", "Done", "content",
		contents(route->answers ? route->answers : "application/json"));
	json_object_set_new(
		responses, "default", json_pack("{ss}", "$ref", "#/components/responses/Error"));
	if (!route->handle) {
		json_object_del(responses, status);
		json_object_set_new(responses, "501",
			json_pack("{ss}", "$ref", "#/components/responses/Error"));
	}
	o = json_pack("{ss so so}", "summary", route->summary, "parameters", parameters,
		"responses", responses);
	add_parameters(parameters, route);
	if (route->bytes_most)
		json_object_set_new(o, "requestBody",
			json_pack("{s{s{s{ss ss}}}}", "content", "application/octet-stream",
				"schema", "type", "string", "format", "binary"));
	else if (route->body)
		json_object_set_new(o, "requestBody",
			json_pack("{s{s{so}}}", "content", "application/json", "schema",
				schema_of_object(route->body)));
	if (route->flags & ROUTE_OPEN)
		json_object_set_new(o, "security", json_array());
	else if (route->flags & ROUTE_PERSON)
		json_object_set_new(o, "security", json_pack("[{s[]}]", "session"));
	return o;
}

static void lower(char *out, size_t size, const char *text)
{
	size_t i = 0;

	for (; text[i] && i + 1 < size; i++)
		out[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 32) : text[i];
	out[i] = 0;
}

json_t *openapi_document(const struct route *routes)
{
	json_t *paths = json_object(), *of_path;
	json_t *error = json_pack("{s[ss] ss s{s{ss} s{ss} s{ss} s{ss}}}", "required", "code",
		"status", "type", "object", "properties", "code", "type", "string", "status",
		"type", "integer", "message", "type", "string", "requestId", "type", "string");
	char method[16];

	for (const struct route *route = routes; route->method; route++) {
		if (route->flags & ROUTE_PAGE)
			continue;
		of_path = json_object_get(paths, route->path);
		if (!of_path) {
			of_path = json_object();
			json_object_set_new(paths, route->path, of_path);
		}
		lower(method, sizeof(method), route->method);
		json_object_set_new(of_path, method, operation(route));
	}
	return json_pack("{ss s{ss ss} so s[{s[]} {s[]}] s{s{s{ss ss} s{ss ss ss}} s{s{ss s{s{s{ss "
			 "s{so} s[s]}}}}}}}",
		"openapi", "3.0.3", "info", "title", "Sealmark", "version", "1", "paths", paths,
		"security", "key", "session", "components", "securitySchemes", "key", "type",
		"http", "scheme", "bearer", "session", "type", "apiKey", "in", "cookie", "name",
		"sealmark_session", "responses", "Error", "description", "An error", "content",
		"application/json", "schema", "type", "object", "properties", "error", error,
		"required", "error");
}

void openapi_get(struct request *q)
{
	answer_json(q, 200, openapi_document(api_routes));
}

void health_get(struct request *q)
{
	answer_json(q, 200, json_pack("{ss}", "status", "ok"));
}
