/* SPDX-License-Identifier: Apache-2.0 - YAML as a tree: places, refusals, limits, typed reading. */
#include "base/buffer.h"
#include "base/yaml.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct yaml_tree *parse(const char *text)
{
	struct yaml_tree *tree = NULL;
	struct error err = {0};

	if (yaml_tree_parse("t.yaml", text, strlen(text), &tree, &err))
		fail_msg("%s", err.message);
	return tree;
}

static void test_tree(void **state)
{
	struct yaml_tree *t = parse("a: 1\nlist:\n  - x\n  - {k: \"v\"}\nempty:\n");
	const struct yaml_node *list = yaml_get(t->root, "list"), *v;

	assert_int_equal(t->root->count, 3);
	assert_int_equal(list->kind, YAML_LIST);
	assert_int_equal(list->count, 2);
	v = yaml_get(list->items[1], "k");
	assert_string_equal(v->text, "v");
	assert_false(v->plain);
	assert_int_equal(v->line, 4);
	assert_int_equal(v->column, 9);
	assert_true(yaml_is_null(yaml_get(t->root, "empty")));
	assert_null(yaml_get(t->root, "none"));
	yaml_tree_free(t);
	t = parse("# nothing\n");
	assert_null(t->root);
	yaml_tree_free(t);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"a: &x 1\n", "t.yaml:1:4: anchors (&name) are not allowed; write the value out"},
		{"a: *x\n", "t.yaml:1:4: aliases (*name) are not allowed; write the value out"},
		{"a: !!python/object 1\n",
			"t.yaml:1:4: tags (!name) are not allowed; remove the tag"},
		{"a: 1\nb: 2\na: 3\n",
			"t.yaml:3:1: key \"a\" is given twice, first in line 1; remove one"},
		{"a: 1\n---\nb: 2\n", "t.yaml:2:1: a second document; the file must hold one"},
		{"? [x]\n: 1\n", "t.yaml:1:3: a key must be text"},
		{"a: \"x\\0y\"\n", "t.yaml:1:4: text must not hold a zero byte"},
		{"a: [1\n", "t.yaml:2:1: "},
		{"a:\n\t- 1\n", "t.yaml:2:1: a tab; YAML is indented with spaces only"},
		{"\xff\xfe", "t.yaml: byte 0: "},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct yaml_tree *tree = NULL;
		struct error err = {0};

		assert_true(yaml_tree_parse(
				    "t.yaml", rows[i].text, strlen(rows[i].text), &tree, &err) < 0);
		assert_null(tree);
		if (strncmp(err.message, rows[i].message, strlen(rows[i].message)))
			fail_msg("%s: not %s", err.message, rows[i].message);
	}
}

static int parse_many(const char *piece, size_t count, const char *end)
{
	struct buffer b = {0};
	struct yaml_tree *tree = NULL;
	struct error err = {0};
	int r;

	for (size_t i = 0; i < count; i++)
		buffer_add_text(&b, piece);
	buffer_add_text(&b, end);
	r = yaml_tree_parse("t.yaml", buffer_bytes(&b), buffer_length(&b), &tree, &err);
	yaml_tree_free(tree);
	buffer_fini(&b);
	return r;
}

static void test_limits(void **state)
{
	assert_int_equal(parse_many("[", YAML_DEPTH_MAX + 1, ""), -E2BIG);
	assert_int_equal(parse_many("- ", YAML_DEPTH_MAX + 1, "x"), -E2BIG);
	assert_int_equal(parse_many("- ", YAML_DEPTH_MAX - 1, "x"), 0);
	assert_int_equal(parse_many("- x\n", YAML_NODES_MAX, ""), -E2BIG);
	assert_int_equal(parse_many("- x\n", YAML_NODES_MAX - 1, ""), 0);
	assert_int_equal(parse_many("# some comment\n", 1 << 17, ""), -EFBIG);
}

static void test_typed(void **state)
{
	struct yaml_tree *t = parse("n: 1.5\nq: \"1.5\"\nu: 12\nneg: -1\nyes: yes\nt: true\n"
				    "hex: 0x10\ninf: .inf\nbig: 99999999999999999999\ne:\n");
	const char *text;
	struct error err;
	uint64_t u;
	double d;
	bool b;

#define NODE(key) yaml_get(t->root, key)
	assert_int_equal(yaml_number(NODE("n"), "n", 0, 2, &d, &err), 0);
	assert_true(d > 1.4999 && d < 1.5001);
	assert_int_equal(yaml_number(NODE("n"), "n", 0, 1, &d, &err), -ERANGE);
	assert_string_equal(err.message, "t.yaml:1:4: n: \"1.5\" must be from 0 to 1");
	assert_int_equal(yaml_number(NODE("q"), "q", 0, 2, &d, &err), -EINVAL);
	assert_int_equal(yaml_number(NODE("hex"), "hex", 0, 2, &d, &err), -EINVAL);
	assert_int_equal(yaml_number(NODE("inf"), "inf", 0, 2, &d, &err), -EINVAL);
	assert_int_equal(yaml_u64(NODE("u"), "u", 1, 12, &u, &err), 0);
	assert_int_equal(u, 12);
	assert_int_equal(yaml_u64(NODE("neg"), "neg", 0, 12, &u, &err), -EINVAL);
	assert_int_equal(yaml_u64(NODE("big"), "big", 0, 12, &u, &err), -ERANGE);
	assert_int_equal(yaml_bool(NODE("t"), "t", &b, &err), 0);
	assert_true(b);
	assert_int_equal(yaml_bool(NODE("yes"), "yes", &b, &err), -EINVAL);
	assert_string_equal(err.message, "t.yaml:5:6: yes: \"yes\"; write true or false");
	assert_int_equal(yaml_text(NODE("u"), "u", &text, &err), 0);
	assert_string_equal(text, "12");
	assert_int_equal(yaml_text(NODE("e"), "e", &text, &err), -EINVAL);
	assert_string_equal(err.message, "t.yaml:10:3: e: empty; it must be text");
	yaml_tree_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_typed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
