/* SPDX-License-Identifier: Apache-2.0 - requests are put together, answers taken apart. */
#include "cli/remote.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

/* --- paths and queries --- */

static void add_encoded(struct buffer *out, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			(*p >= '0' && *p <= '9') || strchr("-._~", *p))
			buffer_add(out, p, 1);
		else
			buffer_printf(out, "%%%02X", *p);
	}
}

void remote_segment(struct buffer *path, const char *text)
{
	add_encoded(path, text);
}

void remote_query(struct buffer *path, const char *name, const char *value)
{
	if (!value)
		return;
	buffer_add_text(path, strchr(buffer_text(path), '?') ? "&" : "?");
	buffer_add_text(path, name);
	buffer_add_text(path, "=");
	add_encoded(path, value);
}

/* --- base64 --- */

char *remote_base64(const void *bytes, size_t count)
{
	char *out = count < INT32_MAX / 2 ? malloc(count / 3 * 4 + 5) : NULL;

	if (out)
		EVP_EncodeBlock((unsigned char *)out, bytes, (int)count);
	return out;
}

int remote_set_bytes(
	json_t *object, const char *text, const char *base64, const struct buffer *bytes)
{
	size_t count = buffer_length(bytes);
	json_t *value = json_stringn(count ? (const char *)buffer_bytes(bytes) : "", count);
	const char *name = value ? text : base64;
	char *encoded = value ? NULL : remote_base64(buffer_bytes(bytes), count);

	if (encoded)
		value = json_string(encoded);
	free(encoded);
	return json_object_set_new(object, name, value) ? -ENOMEM : 0;
}

int remote_unbase64(const char *text, struct buffer *out)
{
	size_t length = strlen(text), padding = 0;
	unsigned char *to;
	int n;

	if (!length)
		return 0;
	if (length % 4 || length > INT32_MAX / 2)
		return -EINVAL;
	while (padding < 2 && text[length - 1 - padding] == '=')
		padding++;
	to = buffer_reserve(out, length / 4 * 3);
	if (!to)
		return -ENOMEM;
	n = EVP_DecodeBlock(to, (const unsigned char *)text, (int)length);
	if (n < (int)padding)
		return -EINVAL;
	buffer_commit(out, (size_t)n - padding);
	return 0;
}

/* --- JSON --- */

const char *json_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

int64_t json_number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);
	uint64_t number;

	if (json_is_integer(value))
		return json_integer_value(value);
	if (text && text_u64(text + (*text == '-'), &number) == 0 && number <= INT64_MAX)
		return *text == '-' ? -(int64_t)number : (int64_t)number;
	return 0;
}

json_t *remote_pairs(const struct cli_texts *texts, const char *option, struct error *err)
{
	json_t *object = json_object();

	for (size_t i = 0; i < texts->count; i++) {
		const char *text = texts->items[i], *equals = strchr(text, '=');
		char name[256];

		if (!equals || equals == text ||
			text_format(name, sizeof(name), "%.*s", (int)(equals - text), text)) {
			cli_usage(err, "%s: \"%.200s\": must be NAME=VALUE", option, text);
			json_decref(object);
			return NULL;
		}
		if (json_object_set_new(object, name, json_string(equals + 1))) {
			cli_usage(err, "%s: \"%.200s\": is not UTF-8", option, text);
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

int remote_money(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	const char *p = text + (*text == '$');
	int64_t micros = 0;
	unsigned digits = 0, places = 0;
	bool point = false;

	for (; *p; p++) {
		if (*p == '.' && !point) {
			point = true;
			continue;
		}
		if (*p < '0' || *p > '9' || places == 6 || micros > INT64_C(1000000000000000))
			return error_set(err, -EINVAL,
				"\"%.80s\" is not an amount of dollars: try %s", text,
				option->example);
		micros = micros * 10 + (*p - '0');
		digits++;
		places += point;
	}
	if (!digits)
		return error_set(err, -EINVAL, "\"%.80s\" is not an amount of dollars: try %s",
			text, option->example);
	for (; places < 6; places++)
		micros *= 10;
	*(int64_t *)field = micros;
	return 0;
}
