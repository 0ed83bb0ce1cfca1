/* SPDX-License-Identifier: Apache-2.0 - the operator's file, sealmark.yaml: one table for reading,
 * for messages and for saying what is in force. */
#include "api/api.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "base/yaml.h"
#include "monitor/egress_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST        96
#define KEYS_MOST        64 /* of one map */
#define RULES_MOST       200
#define RULES_BYTES_MOST 7000                  /* of one list: every sandbox's policy holds them */
#define PRICE_MOST       UINT64_C(10000000000) /* microdollars: ten thousand dollars an hour */

struct api_config {
	struct yaml_tree *tree; /* texts of the options point into it */
	const char ***lists;    /* what lists were read into */
	size_t list_count;
};

struct key;
typedef int key_reader(struct api_config *config, const struct key *key,
	const struct yaml_node *node, void *field, struct error *err);
typedef int key_writer(const struct key *key, const void *field, struct buffer *out);

/* A key of another part is a line in the table, with a field in struct api_options. */
struct key {
	const char *name;  /* whole, with dots */
	key_reader *read;  /* NULL: a map of the keys that begin with its name and a dot */
	key_writer *write; /* its value as it is written in the file */
	size_t offset;     /* in struct api_options */
	uint64_t least, most;
	const char *const *choices; /* NULL-terminated */
};

static key_reader read_text, read_path, read_choice, read_u32, read_u64, read_rules;
static key_writer write_text, write_u32, write_u64, write_list;

static const char *const isolations[] = {"none", "process", "kernel", "hardware", NULL};

#define AT(member) offsetof(struct api_options, member)
#define MAP(name)                                                                                  \
	{                                                                                          \
		name, NULL, NULL, 0, 0, 0, NULL                                                    \
	}
#define TEXT(name, member)                                                                         \
	{                                                                                          \
		name, read_text, write_text, AT(member), 0, 0, NULL                                \
	}
#define PATH(name, member)                                                                         \
	{                                                                                          \
		name, read_path, write_text, AT(member), 0, 0, NULL                                \
	}
#define CHOICE(name, member, c)                                                                    \
	{                                                                                          \
		name, read_choice, write_text, AT(member), 0, 0, c                                 \
	}
#define U32(name, member, least, most)                                                             \
	{                                                                                          \
		name, read_u32, write_u32, AT(member), least, most, NULL                           \
	}
#define COUNT(name, member, most)                                                                  \
	{                                                                                          \
		name, read_u64, write_u64, AT(member), 0, most, NULL                               \
	}
#define PRICE(name, member)                                                                        \
	{                                                                                          \
		name, read_u64, write_u64, AT(member), 0, PRICE_MOST, NULL                         \
	}
#define RULES(name, member, c)                                                                     \
	{                                                                                          \
		name, read_rules, write_list, AT(member), 0, 0, c                                  \
	}
static const char *const only_ranges[] = {NULL};

/* In the order in which they are shown; a map stands before its keys. */
static const struct key keys[] = {
	TEXT("listen", listen),
	TEXT("publicUrl", public_url),
	PATH("store", store),
	MAP("tls"),
	PATH("tls.cert", tls_cert),
	PATH("tls.key", tls_key),
	CHOICE("isolation", isolation, isolations),
	U32("rate", rate, 1, 100000),
	MAP("quotas"),
	U32("quotas.sandboxes", sandboxes_most, 1, 4000),
	U32("quotas.memoryMiB", memory_most_mib, 128, 1u << 24),
	U32("quotas.vcpu", vcpu_most, 1, 65536),
	COUNT("quotas.reservedVcpu", reserved_most, 1023),
	MAP("quotas.perKey"),
	U32("quotas.perKey.sandboxes", key_sandboxes_most, 1, 4000),
	U32("quotas.perKey.memoryMiB", key_memory_most_mib, 128, 1u << 24),
	U32("quotas.perKey.vcpu", key_vcpu_most, 1, 65536),
	MAP("prices"),
	PRICE("prices.cpuVcpuHourMicros", prices.cpu_micros),
	PRICE("prices.memoryGibHourMicros", prices.memory_micros),
	MAP("egress"),
	RULES("egress.alsoAllow", egress_also_allow, only_ranges),
	RULES("egress.deny", egress_deny, NULL),
	MAP("spares"),
	COUNT("spares.most", spares_most, 64),
	COUNT("spares.memoryMiB", spares_memory_mib, 1u << 24),
	MAP("paused"),
	U32("paused.mostSeconds", paused_most_s, 1, 31536000),
	MAP("images"),
	U32("images.buildsAtOnce", builds_most, 1, 64),
	U32("images.buildsWaiting", builds_queued_most, 1, 1024),
	U32("images.buildMemoryMiB", build_memory_mib, 1024, 65536),
	U32("images.totalMiB", images_most_mib, 1, 1u << 30),
};

/* --- reading values --- */

static int read_text(struct api_config *config, const struct key *key, const struct yaml_node *node,
	void *field, struct error *err)
{
	return yaml_text(node, key->name, (const char **)field, err);
}

static int read_path(struct api_config *config, const struct key *key, const struct yaml_node *node,
	void *field, struct error *err)
{
	const char *path;
	int r = yaml_text(node, key->name, &path, err);

	if (r)
		return r;
	/* a server is started from anywhere */
	if (path[0] != '/')
		return yaml_error(node, err, EINVAL,
			"%s: a whole path is wanted, as /etc/sealmark/%.100s", key->name, path);
	*(const char **)field = path;
	return 0;
}

static int read_choice(struct api_config *config, const struct key *key,
	const struct yaml_node *node, void *field, struct error *err)
{
	char known[120] = "";
	const char *text;
	int r = yaml_text(node, key->name, &text, err);

	if (r)
		return r;
	for (size_t i = 0; key->choices[i]; i++) {
		if (strcmp(key->choices[i], text) == 0) {
			*(const char **)field = key->choices[i];
			return 0;
		}
		text_format(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			i ? ", " : "", key->choices[i]);
	}
	return yaml_error(
		node, err, EINVAL, "%s: \"%.60s\" is not one of %s", key->name, text, known);
}

static int read_u32(struct api_config *config, const struct key *key, const struct yaml_node *node,
	void *field, struct error *err)
{
	uint64_t value = 0;
	int r = yaml_u64(node, key->name, key->least, key->most, &value, err);

	if (!r)
		*(uint32_t *)field = (uint32_t)value;
	return r;
}

static int read_u64(struct api_config *config, const struct key *key, const struct yaml_node *node,
	void *field, struct error *err)
{
	return yaml_u64(node, key->name, key->least, key->most, field, err);
}

/* A list of texts that ends with NULL, and is freed with the config. */
static const char **new_list(struct api_config *config, size_t count)
{
	const char ***more = realloc(config->lists, (config->list_count + 1) * sizeof(*more));
	const char **list = calloc(count + 1, sizeof(*list));

	if (more)
		config->lists = more;
	if (!more || !list) {
		free(list);
		return NULL;
	}
	config->lists[config->list_count++] = list;
	return list;
}

/* Rules of egress; with choices, only addresses and ranges. */
static int read_rules(struct api_config *config, const struct key *key,
	const struct yaml_node *node, void *field, struct error *err)
{
	struct egress_rule rule;
	const char **list, *why;
	size_t bytes = 0;
	int r = 0;

	if (node->kind != YAML_LIST)
		return yaml_error(node, err, EINVAL, "%s: a list is wanted", key->name);
	for (size_t i = 0; i < node->count; i++)
		bytes += node->items[i]->text ? strlen(node->items[i]->text) + 4 : 0;
	if (node->count > RULES_MOST || bytes > RULES_BYTES_MOST)
		return yaml_error(node, err, EINVAL, "%s: at most %d rules of %d bytes together",
			key->name, RULES_MOST, RULES_BYTES_MOST);
	list = new_list(config, node->count);
	if (!list)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < node->count && !r; i++) {
		r = yaml_text(node->items[i], key->name, &list[i], err);
		if (!r && egress_rule_parse(list[i], &rule, &why))
			r = yaml_error(node->items[i], err, EINVAL, "%s: \"%.80s\" %s", key->name,
				list[i], why);
		else if (!r && key->choices && (rule.kind != EGRESS_RANGE || rule.port))
			r = yaml_error(node->items[i], err, EINVAL,
				"%s: \"%.80s\" is not an address or a range", key->name, list[i]);
	}
	*(const char *const **)field = list;
	return r;
}

/* --- writing what is in force --- */

static int write_text(const struct key *key, const void *field, struct buffer *out)
{
	const char *text = *(const char *const *)field;

	return text ? buffer_printf(out, "\"%s\"", text) : buffer_add_text(out, "null");
}

static int write_u32(const struct key *key, const void *field, struct buffer *out)
{
	uint32_t value = *(const uint32_t *)field;

	return value ? buffer_printf(out, "%u", value) : buffer_add_text(out, "null");
}

static int write_u64(const struct key *key, const void *field, struct buffer *out)
{
	return buffer_printf(out, "%llu", *(const unsigned long long *)field);
}

static int write_list(const struct key *key, const void *field, struct buffer *out)
{
	const char *const *list = *(const char *const *const *)field;
	int r = buffer_add_text(out, "[");

	for (size_t i = 0; list && list[i] && !r; i++)
		r = buffer_printf(out, "%s\"%s\"", i ? ", " : "", list[i]);
	return r ? r : buffer_add_text(out, "]");
}

static unsigned depth_of(const char *name)
{
	unsigned depth = 0;

	for (; (name = strchr(name, '.')); name++)
		depth++;
	return depth;
}

static const char *last_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

int api_config_show(const struct api_options *options, struct buffer *out)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && !r; i++) {
		const struct key *key = &keys[i];
		const char *field = (const char *)options + key->offset;

		r = buffer_printf(out, "%*s%s:%s", 2 * (int)depth_of(key->name), "",
			last_name(key->name), key->write ? " " : "");
		if (!r && key->write)
			r = key->write(key, field, out);
		if (!r)
			r = buffer_add_text(out, "\n");
	}
	return r;
}

/* --- reading the file --- */

struct reading {
	struct api_config *config;
	struct api_options *options;
	struct buffer *wrong;
	unsigned count;
};

/* One thing that is wrong; the reading goes on, so that all are told at once. */
static void complain(struct reading *reading, const struct error *err)
{
	reading->count++;
	buffer_printf(reading->wrong, "%s\n", error_message(err));
}

static const struct key *find_key(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	}
	return NULL;
}

/* The keys that may stand in the map `prefix` ("" or "quotas."). */
static void list_siblings(const char *prefix, const char *names[KEYS_MOST + 1])
{
	size_t count = 0, n = strlen(prefix);

	for (size_t i = 0; i < ARRAY_SIZE(keys) && count < KEYS_MOST; i++) {
		if (strncmp(keys[i].name, prefix, n) == 0 && !strchr(keys[i].name + n, '.'))
			names[count++] = keys[i].name + n;
	}
	names[count] = NULL;
}

static void complain_unknown(
	struct reading *reading, const char *prefix, const struct yaml_node *node)
{
	const char *names[KEYS_MOST + 1], *nearest;
	struct buffer known = {.limit = 300};
	struct error err = {0};
	char what[80];

	list_siblings(prefix, names);
	nearest = node->text ? text_nearest(node->text, names) : NULL;
	for (size_t i = 0; names[i]; i++)
		buffer_printf(&known, "%s%s", i ? ", " : "", names[i]);
	yaml_describe(node, what, sizeof(what));
	if (nearest)
		yaml_error(node, &err, EINVAL, "there is no key %s; %s%s is meant?", what, prefix,
			nearest);
	else
		yaml_error(node, &err, EINVAL, "there is no key %s here, only %s", what,
			buffer_text(&known));
	buffer_fini(&known);
	complain(reading, &err);
}

static void read_map(struct reading *reading, const struct yaml_node *map, const char *prefix);

static void read_key(struct reading *reading, const struct yaml_node *name,
	const struct yaml_node *value, const char *prefix)
{
	const struct key *key;
	char whole[NAME_MOST];
	struct error err = {0};

	if (text_format(whole, sizeof(whole), "%s%s", prefix, name->text) ||
		strchr(name->text, '.') || !(key = find_key(whole))) {
		complain_unknown(reading, prefix, name);
	} else if (key->read) {
		/* "key:" with nothing after it is as if it were not there */
		if (!yaml_is_null(value) && key->read(reading->config, key, value,
						    (char *)reading->options + key->offset, &err))
			complain(reading, &err);
	} else if (value->kind == YAML_MAP) {
		text_format(whole, sizeof(whole), "%s.", key->name);
		read_map(reading, value, whole);
	} else if (!yaml_is_null(value)) {
		yaml_error(value, &err, EINVAL, "%s: keys and values are wanted, a line each",
			key->name);
		complain(reading, &err);
	}
}

static void read_map(struct reading *reading, const struct yaml_node *map, const char *prefix)
{
	for (size_t i = 0; i < map->count; i++)
		read_key(reading, map->keys[i], map->items[i], prefix);
}

static void read_tree(struct reading *reading)
{
	const struct yaml_node *root = reading->config->tree->root;
	struct error err = {0};

	if (!root || yaml_is_null(root))
		return;
	if (root->kind == YAML_MAP) {
		read_map(reading, root, "");
	} else {
		yaml_error(root, &err, EINVAL, "keys and values are wanted, a line each");
		complain(reading, &err);
	}
}

int api_config_load(const char *path, struct api_options *options, struct buffer *wrong,
	struct api_config **out, struct error *err)
{
	struct reading reading = {.options = options, .wrong = wrong};
	struct buffer bytes = {0};
	int r;

	*out = NULL;
	reading.config = calloc(1, sizeof(*reading.config));
	if (!reading.config)
		return error_set(err, -ENOMEM, "out of memory");
	r = path_read(path, YAML_BYTES_MAX, &bytes, err);
	if (!r)
		r = yaml_tree_parse(path, buffer_bytes(&bytes), buffer_length(&bytes),
			&reading.config->tree, err);
	buffer_fini(&bytes);
	if (!r)
		read_tree(&reading);
	if (!r && reading.count)
		r = error_set(err, -EINVAL, "%s: %u %s", path, reading.count,
			reading.count == 1 ? "thing is wrong" : "things are wrong");
	if (r)
		api_config_free(reading.config);
	else
		*out = reading.config;
	return r;
}

void api_config_free(struct api_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->list_count; i++)
		free(config->lists[i]);
	free(config->lists);
	yaml_tree_free(config->tree);
	free(config);
}
