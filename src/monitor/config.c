/* SPDX-License-Identifier: Apache-2.0 - the monitor's configuration, see config.h. */
#include "monitor/config.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

enum kind { TEXT, NUMBER };

struct field {
	const char *name;
	enum kind kind;
	size_t offset, size; /* size: of the text buffer, or of the integer */
	int64_t least, most;
	bool required;
};

#define TEXT_FIELD(name, member, required)                                                         \
	{                                                                                          \
		name, TEXT, offsetof(struct monitor_config, member),                               \
			sizeof(((struct monitor_config *)0)->member), 0, 0, required               \
	}
#define NUMBER_FIELD_IF(name, member, least, most, required)                                       \
	{                                                                                          \
		name, NUMBER, offsetof(struct monitor_config, member),                             \
			sizeof(((struct monitor_config *)0)->member), least, most, required        \
	}
#define NUMBER_FIELD(name, member, least, most) NUMBER_FIELD_IF(name, member, least, most, true)

static const struct field fields[] = {
	TEXT_FIELD("id", id, true),
	TEXT_FIELD("engine", engine_name, true),
	TEXT_FIELD("home", home, true),
	TEXT_FIELD("image", image, false),
	TEXT_FIELD("kernel", kernel, false),
	TEXT_FIELD("initrd", initrd, false),
	TEXT_FIELD("script", script, false),
	TEXT_FIELD("require_isolation", require_isolation, true),
	TEXT_FIELD("network", network, false),
	NUMBER_FIELD("memory_mib", memory_mib, 64, 65536),
	NUMBER_FIELD("disk_mib", disk_mib, 1, 65536),
	NUMBER_FIELD("files_most", files_most, 64, 1 << 24),
	NUMBER_FIELD("lease_ms", lease_ms, 1, INT64_C(1) << 40),
	NUMBER_FIELD("start_timeout_ms", start_timeout_ms, 1, 600000),
	NUMBER_FIELD("patience_ms", patience_ms, 2, 3600000),
	NUMBER_FIELD("cpu", cpu, -1, 4095),
	NUMBER_FIELD_IF("detached", detached, 0, 1, false),
};

static int take(
	const struct field *f, const json_t *value, struct monitor_config *out, struct error *err)
{
	void *at = (char *)out + f->offset;
	int64_t n;

	if (!value || json_is_null(value)) {
		if (f->required)
			return error_set(err, -EINVAL, "%s is missing", f->name);
		return 0;
	}
	if (f->kind == TEXT) {
		if (!json_is_string(value))
			return error_set(err, -EINVAL, "%s must be a string", f->name);
		if (text_copy(at, f->size, json_string_value(value)))
			return error_set(err, -EINVAL, "%s is too long", f->name);
		return 0;
	}
	n = json_integer_value(value);
	if (!json_is_integer(value) || n < f->least || n > f->most)
		return error_set(err, -EINVAL, "%s must be a number from %lld to %lld", f->name,
			(long long)f->least, (long long)f->most);
	if (f->size == 4)
		memcpy(at, &(int32_t){(int32_t)n}, 4);
	else
		memcpy(at, &n, 8);
	return 0;
}

static int refuse_unknown(json_t *object, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(fields) && strcmp(fields[i].name, key))
			i++;
		if (i == ARRAY_SIZE(fields))
			return error_set(err, -EINVAL, "%.60s: unknown field", key);
	}
	return 0;
}

static int check_id(const char *id, struct error *err)
{
	for (const char *p = id; *p; p++) {
		if (!isalnum((unsigned char)*p) && *p != '-')
			return error_set(err, -EINVAL, "id may hold letters, digits and - only");
	}
	return *id ? 0 : error_set(err, -EINVAL, "id is empty");
}

int monitor_config_read(int fd, struct monitor_config *out, struct error *err)
{
	struct buffer text = {0};
	json_error_t where;
	json_t *root;
	int r;

	*out = (struct monitor_config){0};
	r = path_read_fd(fd, 65536, &text);
	if (r) {
		buffer_fini(&text);
		return error_sys(err, r, "cannot read the configuration");
	}
	root = json_loadb((const char *)buffer_bytes(&text), buffer_length(&text),
		JSON_REJECT_DUPLICATES, &where);
	buffer_fini(&text);
	if (!json_is_object(root)) {
		json_decref(root);
		return error_set(
			err, -EINVAL, "the configuration is not a JSON object: %s", where.text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fields) && !r; i++)
		r = take(&fields[i], json_object_get(root, fields[i].name), out, err);
	if (!r)
		r = refuse_unknown(root, err);
	json_decref(root);
	return r ? r : check_id(out->id, err);
}

static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

void monitor_config_engine(const struct monitor_config *config, struct engine_config *out)
{
	*out = (struct engine_config){
		.image = given(config->image),
		.kernel = given(config->kernel),
		.initrd = given(config->initrd),
		.home = config->home,
		.script = given(config->script),
		.memory_mib = config->memory_mib,
		.disk_mib = config->disk_mib,
		.files_most = config->files_most,
	};
}
