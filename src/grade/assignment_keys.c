/* SPDX-License-Identifier: Apache-2.0 - the keys of assignment.yaml: one table for reading, for
 * messages and for the manual page. */
#include "grade/assignment_internal.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "grade/compare.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define KEY_NAME_MAX 96
#define WORDS_MAX    256 /* entries of a list of texts */

struct key;
typedef int key_reader(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err);

struct key {
	const char *name;           /* whole, with dots */
	key_reader *read;           /* NULL: a map of the keys that begin with its name and a dot */
	size_t offset;              /* in struct assignment */
	uint64_t least, most;       /* ms, bytes, count */
	const char *const *choices; /* NULL-terminated */
	const char *takes;          /* what is written there */
	const char *standard;       /* what holds without it */
	const char *help;
};

static key_reader read_name, read_text, read_paths, read_path, read_choice, read_trust, read_points,
	read_compare, read_duration, read_bytes, read_count, read_argv, read_modules;

static const char *const runners[] = {"stdio", "suite", NULL};
static const char *const trusts[] = {"open", "guarded", "sealed", NULL};
static const char *const isolations[] = {"none", "process", "kernel", "hardware", NULL};
static const char *const frameworks[] = {"unittest", "pytest", NULL};
static const char *const compares[] = {"exact", "lines", "tokens", "float", NULL};

#define MIB        (UINT64_C(1) << 20)
#define AT(member) offsetof(struct assignment, member)

/* the limits, once for the tests and once for compiling */
#define LIMIT_KEYS(prefix, member, cpu, wall, memory, processes_, disk)                            \
	{.name = prefix, .takes = "map", .standard = "as below", .help = "what one run may use"},  \
		{prefix ".cpu", read_duration, AT(member.cpu_ms), 10, 86400000, NULL, "duration",  \
			cpu, "CPU time of all its processes"},                                     \
		{prefix ".wall", read_duration, AT(member.wall_ms), 100, 86400000, NULL,           \
			"duration", wall, "time by the clock, from the start of the program"},     \
		{prefix ".memory", read_bytes, AT(member.memory_bytes), 16 * MIB, 65536 * MIB,     \
			NULL, "size", memory, "memory of all its processes"},                      \
		{prefix ".processes", read_count, AT(member.processes), 1, 4096, NULL, "count",    \
			processes_, "processes and threads at one time"},                          \
		{prefix ".output", read_bytes, AT(member.output_bytes), 1, 64 * MIB, NULL, "size", \
			"1M", "bytes of standard output, and of standard error"},                  \
		{prefix ".disk", read_bytes, AT(member.disk_bytes), MIB, 16384 * MIB, NULL,        \
			"size", disk, "what it may write to disk in all"},                         \
	{                                                                                          \
		prefix ".file", read_bytes, AT(member.file_bytes), 1, 16384 * MIB, NULL, "size",   \
			"disk", "the largest file it may write"                                    \
	}

static const struct key keys[] = {
	{"name", read_name, AT(name), 0, 100, NULL, "text", "the folder's name",
		"names the assignment in records and results"},
	{"image", read_text, AT(image), 0, 0, NULL, "text", "default",
		"the image (NAME or NAME@VERSION) submissions run in"},
	{"files", read_paths, AT(files), 0, 0, NULL, "path or list of paths", "none",
		"files that each submission must hold"},
	{"runner", read_choice, AT(runner), 0, 0, runners, "stdio or suite",
		"by what the folder holds", "how submissions are tested"},
	{"min_trust", read_trust, AT(min_trust), 0, 0, trusts, "open, guarded or sealed", "open",
		"refuse to grade with less"},
	{"require_isolation", read_choice, AT(require_isolation), 0, 0, isolations,
		"none, process, kernel or hardware", "kernel", "refuse to grade with less"},
	{"points", read_points, 0, 0, 0, NULL, "number or map", "1",
		"points of a test; in a map by test id or pattern, `default` for the others"},
	LIMIT_KEYS("limits", limits, "10s", "3 * cpu + 5s", "256M", "64", "64M"),
	{.name = "stdio",
		.takes = "map",
		.standard = "as below",
		.help = "settings of the runner stdio"},
	{"stdio.cases", read_path, AT(cases), 0, 0, NULL, "path", ".",
		"folder with the cases NAME.in and NAME.out or NAME.ans"},
	{"stdio.compile", read_argv, AT(compile), 0, 0, NULL, "command",
		"by the submission's files", "makes the program, once; no shell"},
	{"stdio.run", read_argv, AT(run), 0, 0, NULL, "command", "by the submission's files",
		"runs the program, once for each case; no shell"},
	{"stdio.compare", read_compare, AT(compare), 0, 0, compares,
		"exact, lines, tokens, float or {float: {absolute, relative, nan}}", "lines",
		"when the output is right"},
	LIMIT_KEYS("stdio.compile_limits", compile_limits, "60s", "3 * cpu + 5s", "512M", "256",
		"limits.disk"),
	{.name = "suite",
		.takes = "map",
		.standard = "as below",
		.help = "settings of the runner suite"},
	{"suite.framework", read_choice, AT(framework), 0, 0, frameworks, "unittest or pytest",
		"by what the tests import", "what the tests are written for"},
	{"suite.modules", read_modules, AT(modules), 0, 0, NULL, "name or list of names",
		"by what the tests import", "modules that the students wrote"},
};

int assignment_isolation_rank(const char *name)
{
	for (int i = 0; isolations[i]; i++) {
		if (strcmp(isolations[i], name) == 0)
			return i;
	}
	return -EINVAL;
}

int assignment_describe_keys(struct buffer *out)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && !r; i++)
		r = buffer_printf(out, "%s\t%s\t%s\t%s\n", keys[i].name, keys[i].takes,
			keys[i].standard, keys[i].help);
	return r;
}

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

static int set_text(char **field, const char *text, struct error *err)
{
	free(*field);
	*field = strdup(text);
	return *field ? 0 : no_memory(err);
}

static int read_text(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	const char *text;
	int r = yaml_text(node, key->name, &text, err);

	return r ? r : set_text(field, text, err);
}

static int read_name(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	const char *text;
	int r = yaml_text(node, key->name, &text, err);

	if (r)
		return r;
	if (strchr(text, '/') || text[0] == '.' || strlen(text) > key->most)
		return yaml_error(node, err, -EINVAL,
			"%s: it names a folder: at most %" PRIu64
			" bytes, no / and no . at its start",
			key->name, key->most);
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 127)
			return yaml_error(node, err, -EINVAL,
				"%s: must not hold control characters", key->name);
	}
	return set_text(field, text, err);
}

static int read_word(
	const struct key *key, const struct yaml_node *node, const char **word, struct error *err)
{
	char list[160] = "", was[96];
	const char *near;
	int r = yaml_text(node, key->name, word, err);

	if (r)
		return r;
	for (size_t i = 0; key->choices[i]; i++) {
		if (strcmp(key->choices[i], *word) == 0)
			return 0;
		text_format(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
			key->choices[i]);
	}
	near = text_nearest(*word, key->choices);
	return yaml_error(node, err, -EINVAL, "%s: %s is not one of %s%s%s%s", key->name,
		yaml_describe(node, was, sizeof(was)), list, near ? "; did you mean " : "",
		near ? near : "", near ? "?" : "");
}

static int read_choice(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	const char *word;
	int r = read_word(key, node, &word, err);

	return r ? r : set_text(field, word, err);
}

static int read_trust(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	enum trust *trust = field;
	const char *word;
	int r = read_word(key, node, &word, err);

	for (unsigned i = 0; !r && trusts[i]; i++) {
		if (strcmp(trusts[i], word) == 0)
			*trust = (enum trust)i;
	}
	return r;
}

static int read_duration(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	int64_t *ms = field;
	char was[96];

	if (node->kind != YAML_SCALAR || text_duration_ms(node->text, ms))
		return yaml_error(node, err, -EINVAL,
			"%s: %s is not a duration; write 10s, 500ms or 2m", key->name,
			yaml_describe(node, was, sizeof(was)));
	if (*ms < (int64_t)key->least || *ms > (int64_t)key->most)
		return yaml_error(node, err, -ERANGE,
			"%s: %s is out of range; it must be from %" PRIu64 "ms to %" PRIu64 "h",
			key->name, yaml_describe(node, was, sizeof(was)), key->least,
			key->most / 3600000);
	return 0;
}

/* "16M", "1" for messages */
static const char *show_size(uint64_t bytes, char *out, size_t size)
{
	if (bytes && bytes % MIB == 0)
		text_format(out, size, "%" PRIu64 "M", bytes / MIB);
	else
		text_format(out, size, "%" PRIu64, bytes);
	return out;
}

static int read_bytes(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	char was[96], least[24], most[24];
	uint64_t *bytes = field;

	if (node->kind != YAML_SCALAR || text_bytes(node->text, 1, bytes))
		return yaml_error(node, err, -EINVAL, "%s: %s is not a size; write 256M, 64k or 2G",
			key->name, yaml_describe(node, was, sizeof(was)));
	if (*bytes < key->least || *bytes > key->most)
		return yaml_error(node, err, -ERANGE,
			"%s: %s is out of range; it must be from %s to %s", key->name,
			yaml_describe(node, was, sizeof(was)),
			show_size(key->least, least, sizeof(least)),
			show_size(key->most, most, sizeof(most)));
	return 0;
}

static int read_count(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	uint64_t v;
	int r = yaml_u64(node, key->name, key->least, key->most, &v, err);

	if (!r)
		*(uint32_t *)field = (uint32_t)v;
	return r;
}

/* --- lists of texts --- */

static void free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

/* one text, or a list of them; each must pass `check` (0, or an error with its place) */
static int read_words(const struct key *key, const struct yaml_node *node, char ***field,
	int (*check)(const struct key *, const struct yaml_node *, struct error *),
	struct error *err)
{
	size_t count = node->kind == YAML_LIST ? node->count : 1;
	const struct yaml_node *item = node;
	const char *text;
	char **words;
	int r = 0;

	if (count == 0 || count > WORDS_MAX)
		return yaml_error(node, err, -EINVAL, "%s: must hold from 1 to %d entries",
			key->name, WORDS_MAX);
	words = calloc(count + 1, sizeof(*words));
	if (!words)
		return no_memory(err);
	for (size_t i = 0; i < count && !r; i++) {
		if (node->kind == YAML_LIST)
			item = node->items[i];
		r = yaml_text(item, key->name, &text, err);
		if (!r && check)
			r = check(key, item, err);
		for (size_t k = 0; k < i && !r && check; k++) {
			if (strcmp(words[k], text) == 0)
				r = yaml_error(item, err, -EINVAL, "%s: %s is named twice",
					key->name, text);
		}
		if (!r && !(words[i] = strdup(text)))
			r = no_memory(err);
	}
	if (r) {
		free_words(words);
		return r;
	}
	free_words(*field);
	*field = words;
	return 0;
}

static int check_path(const struct key *key, const struct yaml_node *node, struct error *err)
{
	char was[96];

	if (assignment_path_is_below(node->text) && strcmp(node->text, "."))
		return 0;
	return yaml_error(node, err, -EINVAL,
		"%s: %s must be a path below the folder, without .. or a / at its ends", key->name,
		yaml_describe(node, was, sizeof(was)));
}

static int check_module(const struct key *key, const struct yaml_node *node, struct error *err)
{
	char was[96];
	const char *p = node->text;

	for (bool first = true; *p; p++) {
		if (!(isalpha((unsigned char)*p) || *p == '_' ||
			    (!first && (isdigit((unsigned char)*p) || (*p == '.' && p[1])))))
			break;
		first = *p == '.';
	}
	return *p ? yaml_error(node, err, -EINVAL,
			    "%s: %s is not a module's name; write hw, not hw.py", key->name,
			    yaml_describe(node, was, sizeof(was)))
		  : 0;
}

static int read_paths(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	return read_words(key, node, field, check_path, err);
}

static int read_modules(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	return read_words(key, node, field, check_module, err);
}

static int read_path(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	const char *text;
	int r = yaml_text(node, key->name, &text, err);

	if (!r && strcmp(text, "."))
		r = check_path(key, node, err);
	return r ? r : set_text(field, text, err);
}

/* A command is a list; as one text it is split at blanks, as long as nothing in it looks as if it
 * were meant for a shell. */
static int read_argv(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	struct yaml_node list = *node, words[WORDS_MAX], *items[WORDS_MAX];
	cleanup_free char *copy = NULL;
	char *rest, *word, was[96];
	const char *text;
	int r;

	if (node->kind == YAML_LIST)
		return read_words(key, node, field, NULL, err);
	r = yaml_text(node, key->name, &text, err);
	if (r)
		return r;
	if (strpbrk(text, "'\"\\$`|&;<>*?~(){}[]#\n"))
		return yaml_error(node, err, -EINVAL,
			"%s: %s goes to no shell; write a list: [gcc, -o, prog, hw.c], or "
			"[sh, -c, \"…\"] for a shell",
			key->name, yaml_describe(node, was, sizeof(was)));
	copy = strdup(text);
	if (!copy)
		return no_memory(err);
	list.kind = YAML_LIST;
	list.items = items;
	list.count = 0;
	for (rest = copy; (word = strsep(&rest, " \t"));) {
		if (!*word)
			continue;
		if (list.count == WORDS_MAX)
			return yaml_error(
				node, err, -E2BIG, "%s: more than %d words", key->name, WORDS_MAX);
		words[list.count] = *node;
		words[list.count].text = word;
		words[list.count].plain = false;
		items[list.count] = &words[list.count];
		list.count++;
	}
	return read_words(key, &list, field, NULL, err);
}

/* --- points and compare rules --- */

static int add_points(
	struct assignment *a, const struct yaml_node *pattern, double points, struct error *err)
{
	struct points_rule *grown = reallocarray(a->points, a->point_count + 1, sizeof(*a->points));

	if (!grown)
		return no_memory(err);
	a->points = grown;
	grown += a->point_count;
	*grown = (struct points_rule){.pattern = strdup(pattern->text),
		.points = points,
		.line = pattern->line,
		.column = pattern->column};
	if (!grown->pattern)
		return no_memory(err);
	a->point_count++;
	return 0;
}

/* field is the assignment itself */
static int read_points(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	struct assignment *a = field;
	char what[KEY_NAME_MAX];
	double v;
	int r = 0;

	if (node->kind != YAML_MAP)
		return yaml_number(node, key->name, 0, 1e6, &a->default_points, err);
	for (size_t i = 0; i < node->count && !r; i++) {
		const struct yaml_node *pattern = node->keys[i];
		char was[80];

		if (!*pattern->text)
			return yaml_error(pattern, err, -EINVAL, "points: a pattern is empty");
		text_format(
			what, sizeof(what), "points.%s", yaml_describe(pattern, was, sizeof(was)));
		r = yaml_number(node->items[i], what, 0, 1e6, &v, err);
		if (r)
			break;
		if (strcmp(pattern->text, "default") == 0)
			a->default_points = v;
		else
			r = add_points(a, pattern, v, err);
	}
	return r;
}

static int read_tolerances(const struct yaml_node *map, struct compare *compare, struct error *err)
{
	static const char *const names[] = {"absolute", "relative", "nan", NULL};
	int r = 0;

	if (map->kind != YAML_MAP)
		return yaml_error(map, err, -EINVAL,
			"stdio.compare.float: must be a map of absolute, relative and nan");
	compare->absolute = compare->relative = 0; /* only what is written counts */
	for (size_t i = 0; i < map->count && !r; i++) {
		const struct yaml_node *k = map->keys[i], *v = map->items[i];
		const char *near;
		char was[96];

		if (strcmp(k->text, "absolute") == 0) {
			r = yaml_number(v, "stdio.compare.float.absolute", 0, 1e300,
				&compare->absolute, err);
		} else if (strcmp(k->text, "relative") == 0) {
			r = yaml_number(
				v, "stdio.compare.float.relative", 0, 1, &compare->relative, err);
		} else if (strcmp(k->text, "nan") == 0) {
			r = yaml_bool(v, "stdio.compare.float.nan", &compare->nan_equal, err);
		} else {
			near = text_nearest(k->text, names);
			r = yaml_error(k, err, -EINVAL, "stdio.compare.float: no such key %s; %s%s",
				yaml_describe(k, was, sizeof(was)),
				near ? "did you mean " : "there are absolute, relative and nan",
				near ? near : "");
		}
	}
	return r;
}

static int read_compare(
	const struct key *key, const struct yaml_node *node, void *field, struct error *err)
{
	struct compare *compare = field;
	const char *word;
	int r;

	if (node->kind == YAML_MAP && node->count == 1 &&
		strcmp(node->keys[0]->text, "float") == 0) {
		compare->rule = COMPARE_FLOAT;
		return read_tolerances(node->items[0], compare, err);
	}
	if (node->kind != YAML_SCALAR)
		return yaml_error(node, err, -EINVAL,
			"%s: must be exact, lines, tokens, float or {float: {absolute: 0.001}}",
			key->name);
	r = read_word(key, node, &word, err);
	for (unsigned i = 0; !r && compares[i]; i++) {
		if (strcmp(compares[i], word) == 0)
			compare->rule = (enum compare_rule)i;
	}
	return r;
}

/* --- walking the tree along the table --- */

static const struct key *find_key(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	}
	return NULL;
}

/* no such key: the nearest one of the same map, else all of them */
static int unknown_key(const struct yaml_node *k, const char *prefix, struct error *err)
{
	const char *names[ARRAY_SIZE(keys) + 1], *near;
	struct buffer list = {0};
	size_t count = 0, n = strlen(prefix);
	char was[96];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (text_starts(keys[i].name, prefix) && !strchr(keys[i].name + n, '.'))
			names[count++] = keys[i].name + n;
	}
	names[count] = NULL;
	near = text_nearest(k->text, names);
	for (size_t i = 0; i < count; i++)
		buffer_printf(&list, "%s%s", i ? ", " : "", names[i]);
	yaml_describe(k, was, sizeof(was));
	if (near)
		r = yaml_error(k, err, -EINVAL, "no such key %s; did you mean %s?", was, near);
	else
		r = yaml_error(k, err, -EINVAL, "no such key %s; there are %s", was,
			buffer_text(&list) ? buffer_text(&list) : "others");
	buffer_fini(&list);
	return r;
}

static int read_map(
	const struct yaml_node *map, const char *prefix, struct assignment *a, struct error *err)
{
	char name[KEY_NAME_MAX], was[96];
	int r = 0;

	for (size_t i = 0; i < map->count && !r; i++) {
		const struct yaml_node *k = map->keys[i], *v = map->items[i];
		const struct key *key = NULL;

		if (!strchr(k->text, '.') &&
			!text_format(name, sizeof(name), "%s%s", prefix, k->text))
			key = find_key(name);
		if (!key)
			return unknown_key(k, prefix, err);
		if (key->read) {
			r = key->read(key, v, (char *)a + key->offset, err);
		} else if (v->kind != YAML_MAP) {
			r = yaml_error(v, err, -EINVAL, "%s: %s; it must be a map of settings",
				key->name, yaml_describe(v, was, sizeof(was)));
		} else {
			char inner[KEY_NAME_MAX];

			text_format(inner, sizeof(inner), "%s.", key->name);
			r = read_map(v, inner, a, err);
		}
	}
	return r;
}

int assignment_read_keys(const struct yaml_tree *tree, struct assignment *a, struct error *err)
{
	char was[96];

	if (!tree->root || yaml_is_null(tree->root))
		return 0;
	if (tree->root->kind != YAML_MAP)
		return yaml_error(tree->root, err, -EINVAL,
			"the file is %s; it must be a map, as `runner: stdio`",
			yaml_describe(tree->root, was, sizeof(was)));
	return read_map(tree->root, "", a, err);
}
