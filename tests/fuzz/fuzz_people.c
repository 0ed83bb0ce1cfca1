/* SPDX-License-Identifier: Apache-2.0 - fuzzes what strangers send to the pages: forms, texts that
 * are shown, codes, names of hosts, public keys. */
#include "api/people.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* whatever a text holds, it is neither markup nor the end of an attribute, and seen as it is */
static void show(const char *text)
{
	struct buffer out = {0};
	const char *shown;

	html(&out, "$", text, NULL);
	shown = buffer_text(&out);
	check(shown != NULL && text_is_utf8(shown, strlen(shown)));
	for (const char *p = shown; *p; p++)
		check(!strchr("<>\"'", *p) && (unsigned char)*p >= 0x20);
	buffer_fini(&out);
}

static void read_form(const uint8_t *bytes, size_t count)
{
	json_t *form = html_form_parse(bytes, count), *value;
	const char *name;

	if (!form)
		return;
	check(json_object_size(form) <= 16);
	json_object_foreach (form, name, value) {
		check(strlen(json_string_value(value)) == json_string_length(value));
		check(text_is_utf8(json_string_value(value), json_string_length(value)));
		show(json_string_value(value));
	}
	json_decref(form);
}

static void read_names(const char *text)
{
	char code[STORE_USER_CODE_SIZE], again[STORE_USER_CODE_SIZE], group[64];

	if (approval_code(text, code)) {
		check(strlen(code) == 9 && code[4] == '-');
		check(approval_code(code, again) && strcmp(code, again) == 0);
	}
	if (origin_host_is_plain(text)) {
		/* it is put into links and headers */
		for (const char *p = text; *p; p++)
			check(isalnum((unsigned char)*p) || strchr(".:[]", *p));
	}
	origin_group(text, group, sizeof(group));
}

static void read_key(const char *text)
{
	char *key = NULL, *again = NULL, *sealed = NULL;

	if (seal_public_key(text, &key, NULL))
		return;
	check(seal_public_key(key, &again, NULL) == 0 && strcmp(key, again) == 0);
	if (seal_for(key, "rtcloud_x", &sealed, NULL) == 0)
		check(strlen(sealed) >= 2048 / 8);
	free(key);
	free(again);
	free(sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	char *text = strndup((const char *)bytes, count);

	check(text != NULL);
	read_form(bytes, count);
	show(text);
	read_names(text);
	read_key(text);
	check(password_wrong(text) || strlen(text) >= PASSWORD_LEAST);
	free(text);
	return 0;
}
