/* SPDX-License-Identifier: Apache-2.0 - rules of egress: what is reachable, and what never is. */
#include "../base/unit.h"

#include "monitor/egress_policy.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct egress_policy *policy(const char *json)
{
	struct egress_policy *p;
	struct error err = {0};

	if (egress_policy_new(json, &p, &err))
		fail_msg("%s: %s", json, err.message);
	return p;
}

static struct egress_address address(const char *text)
{
	struct egress_address a;

	if (!egress_address_parse(text, &a))
		fail_msg("%s is no address", text);
	return a;
}

static enum egress_verdict check(
	const struct egress_policy *p, const char *name, const char *text, uint16_t port)
{
	struct egress_address a = address(text);

	return egress_check_address(p, name, &a, port, NULL, 0);
}

static void test_never_reachable(void **state)
{
	static const char *const texts[] = {"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",
		"100.64.0.1", "100.127.255.255", "100.100.100.200", "127.0.0.1", "127.255.255.254",
		"168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.0.170", "192.88.99.1", "192.168.0.1", "192.168.255.255",
		"198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
		"::ffff:169.254.169.254", "::ffff:0:7f00:1", "64:ff9b::7f00:1",
		"64:ff9b::169.254.169.254", "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:1::1",
		"2001:2::1", "2001:10::1", "2001:1ff::1", "2002:7f00:1::", "2002:a00:1::1",
		"2002:c0a8:101::", "fc00::1", "fd00::1", "fd00:ec2::254", "fe80::1", "febf::1",
		"fec0::1", "ff02::1", "5f00::1", "4000::1"};
	struct egress_policy *all = policy("{\"internet\": true}");
	struct egress_policy *asked =
		policy("{\"internet\": true, \"allow\": [\"*\", \"0.0.0.0/0\","
		       "\"::/0\", \"host.example\"]}");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (check(all, NULL, texts[i], 80) != EGRESS_NOT_PUBLIC ||
			check(all, "host.example", texts[i], 80) != EGRESS_NOT_PUBLIC ||
			check(asked, NULL, texts[i], 80) != EGRESS_NOT_PUBLIC ||
			check(asked, "host.example", texts[i], 80) != EGRESS_NOT_PUBLIC)
			fail_msg("%s can be reached", texts[i]);
	}
	egress_policy_free(all);
	egress_policy_free(asked);
}

/* Rules for an IPv4 address hold for it also when a translator's IPv6 address leads to it. */
static void test_embedded_addresses(void **state)
{
	static const char *const texts[] = {"93.184.216.34", "::ffff:93.184.216.34",
		"64:ff9b::93.184.216.34", "2002:5db8:d822::1"};
	struct egress_policy *denied =
		policy("{\"internet\": true, \"deny\": [\"93.184.216.0/24:443\"]}");
	struct egress_policy *all = policy("{\"internet\": true}");
	const struct egress_address own = address("93.184.216.34");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct egress_address a = address(texts[i]);

		assert_int_equal(check(denied, NULL, texts[i], 443), EGRESS_DENIED);
		assert_int_equal(check(denied, "host.example", texts[i], 443), EGRESS_DENIED);
		assert_int_equal(check(denied, NULL, texts[i], 80), EGRESS_ALLOWED);
		assert_int_equal(
			egress_check_address(all, NULL, &a, 443, &own, 1), EGRESS_NOT_PUBLIC);
	}
	egress_policy_free(denied);
	egress_policy_free(all);
}

/* Of many interfaces none was left out in silence. */
static void test_many_interfaces(void **state)
{
	static struct sockaddr_in v4[300];
	static struct ifaddrs list[300];
	struct egress_address out[8];

	for (uint32_t i = 0; i < 300; i++) {
		v4[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + i)};
		list[i] = (struct ifaddrs){.ifa_addr = (struct sockaddr *)&v4[i],
			.ifa_next = i < 299 ? &list[i + 1] : NULL};
	}
	assert_int_equal(egress_own_addresses(list, out, 8), 0); /* private: refused anyway */
	v4[299].sin_addr.s_addr = htonl(0x08080808);
	list[150].ifa_addr = NULL;
	assert_int_equal(egress_own_addresses(list, out, 8), 1);
	assert_int_equal(out[0].bytes[15], 8);
	for (uint32_t i = 0; i < 9; i++)
		v4[i].sin_addr.s_addr = htonl(0x08080800 + i);
	assert_int_equal(egress_own_addresses(list, out, 8), -1);
}

static void test_reachable(void **state)
{
	static const char *const texts[] = {"1.1.1.1", "9.255.255.255", "11.0.0.0",
		"100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "169.253.255.255",
		"169.255.0.1", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.2.1",
		"192.167.255.255", "192.169.0.1", "198.17.255.255", "198.20.0.0", "198.51.100.1",
		"203.0.113.80", "223.255.255.255", "168.63.129.15", "2606:4700::1111", "2a00::1",
		"2001:200::1", "64:ff9b::101:101", "2002:101:101::1", "::ffff:1.1.1.1"};
	struct egress_policy *all = policy("{\"internet\": true}");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (check(all, NULL, texts[i], 80) != EGRESS_ALLOWED)
			fail_msg("%s cannot be reached", texts[i]);
	}
	egress_policy_free(all);
}

static void test_names(void **state)
{
	static const struct {
		const char *text, *normal; /* NULL: no name */
	} cases[] = {
		{"example.org", "example.org"},
		{"Example.ORG.", "example.org"},
		{"a_b-c.example", "a_b-c.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"host", "host"},
		{"1.example", "1.example"},
		{"", NULL},
		{".", NULL},
		{"..", NULL},
		{".example.org", NULL},
		{"example..org", NULL},
		{"example.org..", NULL},
		{"*.example.org", NULL},
		{"exam ple.org", NULL},
		{"example.org\n", NULL},
		{"example.org/..", NULL},
		{"user@example.org", NULL},
		{"b\xc3\xbc"
		 "cher.example",
			NULL},
		/* what some resolvers take for 127.0.0.1 */
		{"2130706433", NULL},
		{"0x7f000001", NULL},
		{"0X7F.1", NULL},
		{"127.1", NULL},
		{"127.0.0.1.", NULL},
		{"0177.0.0.1", NULL},
		{"example.0x1", NULL},
		{"::1", NULL},
		{"fe80::1%eth0", NULL},
	};
	char out[EGRESS_NAME_MOST + 1], long_label[80], long_name[300];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is = egress_name_normal(cases[i].text, out);

		if (is != !!cases[i].normal || (is && strcmp(out, cases[i].normal) != 0))
			fail_msg("\"%s\" is %s", cases[i].text, is ? out : "no name");
	}
	memset(long_label, 'a', 64);
	memcpy(long_label + 64, ".org", 5);
	assert_false(egress_name_normal(long_label, out));
	assert_true(egress_name_normal(long_label + 1, out));
	for (size_t i = 0; i < 254; i++)
		long_name[i] = i % 2 ? '.' : 'a';
	long_name[253] = 0;
	assert_true(egress_name_normal(long_name, out));
	memcpy(long_name + 253, "bb", 3);
	assert_false(egress_name_normal(long_name, out));
}

static void test_rules(void **state)
{
	static const char *const right[] = {"*", "*:443", "example.org", "EXAMPLE.org.",
		"*.example.org", "*.org:80", "example.org:65535", "192.0.2.1", "192.0.2.1:80",
		"192.0.2.77/24", "192.0.2.0/24:443", "0.0.0.0/0", "2001:db8::1", "[2001:db8::1]",
		"[2001:db8::1]:443", "2001:db8::/32", "[2001:db8::/32]:443", "::/0"};
	static const char *const wrong[] = {"", " ", "https://example.org", "example.org/path",
		"example.org:", "example.org:0", "example.org:65536", "example.org:http", "*.",
		"*.*.org", "ex*mple.org", "**", "192.0.2.1/33", "192.0.2.1/", "192.0.2.1/x",
		"192.0.2", "192.0.2.1.5", "[2001:db8::1", "[2001:db8::1]x", "2001:db8::/129",
		"-1.0.0.0/8", "user@example.org", "exam\tple.org",
		"b\xc3\xbc"
		"cher.example",
		"2130706433", "1.2.3.4/8/8", "[]", "[]:1", ":80"};
	struct egress_rule rule;
	const char *why;

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		if (egress_rule_parse(right[i], &rule, &why))
			fail_msg("\"%s\": %s", right[i], why);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why = NULL;
		if (egress_rule_parse(wrong[i], &rule, &why) != -EINVAL || !why)
			fail_msg("\"%s\" is taken for a rule", wrong[i]);
	}
}

struct row {
	const char *name, *address;
	uint16_t port;
	enum egress_verdict verdict;
};

static void hold(const char *json, const struct row *rows)
{
	struct egress_policy *p = policy(json);

	for (; rows->address; rows++) {
		enum egress_verdict v = check(p, rows->name, rows->address, rows->port);

		if (v != rows->verdict)
			fail_msg("%s: %s %s:%u: %s", json, rows->name ? rows->name : "-",
				rows->address, rows->port, egress_verdict_text(v));
	}
	egress_policy_free(p);
}

static void test_verdicts(void **state)
{
	hold("{\"internet\": false, \"allow\": [\"*\"]}",
		(const struct row[]){{NULL, "1.1.1.1", 80, EGRESS_OFF},
			{"example.org", "1.1.1.1", 80, EGRESS_OFF}, {0}});
	hold("{\"internet\": true, \"deny\": [\"*.example.org\", \"192.0.2.0/24\", \"x.net:25\"]}",
		(const struct row[]){{"a.example.org", "1.1.1.1", 80, EGRESS_DENIED},
			{"b.a.example.org", "1.1.1.1", 80, EGRESS_DENIED},
			{"example.org", "1.1.1.1", 80, EGRESS_ALLOWED},
			{"notexample.org", "1.1.1.1", 80, EGRESS_ALLOWED},
			{"a.example.org.net", "1.1.1.1", 80, EGRESS_ALLOWED},
			{NULL, "192.0.2.9", 80, EGRESS_DENIED},
			{"fine.net", "192.0.2.9", 80, EGRESS_DENIED},
			{NULL, "::ffff:192.0.2.9", 80, EGRESS_DENIED},
			{NULL, "192.0.3.9", 80, EGRESS_ALLOWED},
			{"x.net", "1.1.1.1", 25, EGRESS_DENIED},
			{"x.net", "1.1.1.1", 80, EGRESS_ALLOWED}, {0}});
	hold("{\"internet\": true, \"allow\": [\"*.example.org:443\", \"192.0.2.0/24\"],"
	     "\"deny\": [\"bad.example.org\"]}",
		(const struct row[]){{"a.example.org", "1.1.1.1", 443, EGRESS_ALLOWED},
			{"a.example.org", "1.1.1.1", 80, EGRESS_NOT_LISTED},
			{"bad.example.org", "1.1.1.1", 443, EGRESS_DENIED},
			{NULL, "1.1.1.1", 443, EGRESS_NOT_LISTED},
			{NULL, "192.0.2.9", 1, EGRESS_ALLOWED},
			/* a name is allowed by name only: else every name could be looked up */
			{"else.net", "192.0.2.9", 80, EGRESS_NOT_LISTED},
			{"a.example.org", "10.0.0.1", 443, EGRESS_NOT_PUBLIC}, {0}});
	hold("{\"internet\": true, \"alsoAllow\": [\"10.1.2.0/24\"], \"deny\": [\"10.1.2.9\"]}",
		(const struct row[]){{NULL, "10.1.2.3", 80, EGRESS_ALLOWED},
			{"mirror.example", "10.1.2.3", 80, EGRESS_ALLOWED},
			{NULL, "10.1.2.9", 80, EGRESS_DENIED},
			{NULL, "10.1.3.3", 80, EGRESS_NOT_PUBLIC}, {0}});
}

static void test_looking_up(void **state)
{
	struct egress_policy *p =
		policy("{\"internet\": true, \"allow\": [\"a.net:443\", \"1.1.1.1\"],"
		       "\"deny\": [\"b.net\", \"a.net:25\"]}");

	assert_int_equal(egress_check_name(p, "a.net", 0), EGRESS_ALLOWED);
	assert_int_equal(egress_check_name(p, "b.net", 0), EGRESS_DENIED);
	assert_int_equal(egress_check_name(p, "c.net", 0), EGRESS_NOT_LISTED);
	assert_int_equal(egress_check_name(NULL, "a.net", 0), EGRESS_OFF);
	egress_policy_free(p);
}

static void test_own_addresses(void **state)
{
	struct egress_policy *p = policy("{\"internet\": true}");
	struct egress_policy *also = policy("{\"internet\": true, \"alsoAllow\": [\"192.0.2.2\"]}");
	struct egress_address own = address("192.0.2.2");

	assert_int_equal(egress_check_address(p, NULL, &own, 80, &own, 1), EGRESS_NOT_PUBLIC);
	assert_int_equal(
		egress_check_address(p, "me.example", &own, 80, &own, 1), EGRESS_NOT_PUBLIC);
	assert_int_equal(egress_check_address(also, NULL, &own, 80, &own, 1), EGRESS_ALLOWED);
	egress_policy_free(p);
	egress_policy_free(also);
}

static void test_wrong_policies(void **state)
{
	static const char *const cases[][2] = {
		{"", "is not a JSON object"},
		{"[]", "is not a JSON object"},
		{"{", "is not a JSON object"},
		{"{\"internet\": true, \"internet\": true}", "is not a JSON object"},
		{"{}", "internet: must be true or false"},
		{"{\"internet\": 1}", "internet: must be true or false"},
		{"{\"internet\": true, \"alow\": []}", "alow: unknown field"},
		{"{\"internet\": true, \"allow\": \"*\"}", "allow: must be a list"},
		{"{\"internet\": true, \"allow\": [\"a.net\", 1]}", "allow[1]: must be a string"},
		{"{\"internet\": true, \"deny\": [\"a b\"]}", "deny[0]: \"a b\" is not a name"},
		{"{\"internet\": true, \"alsoAllow\": [\"a.net\"]}", "alsoAllow[0]: must be an"},
		{"{\"internet\": true, \"alsoAllow\": [\"10.0.0.0/8:80\"]}",
			"alsoAllow[0]: must be"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct egress_policy *p;
		struct error err = {0};

		if (egress_policy_new(cases[i][0], &p, &err) != -EINVAL ||
			!strstr(err.message, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], error_message(&err));
		assert_null(p);
	}
}

static void test_addresses_in_text(void **state)
{
	struct egress_address a = address("::ffff:192.0.2.1");
	char text[64];

	egress_address_text(&a, text, sizeof(text));
	assert_string_equal(text, "192.0.2.1");
	a = address("2001:DB8::1");
	egress_address_text(&a, text, sizeof(text));
	assert_string_equal(text, "2001:db8::1");
	assert_false(egress_address_parse("192.0.2.01", &a));
	assert_false(egress_address_parse("192.0.2.1 ", &a));
	assert_false(egress_address_parse("fe80::1%lo", &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_reachable),
		cmocka_unit_test(test_reachable),
		cmocka_unit_test(test_embedded_addresses),
		cmocka_unit_test(test_many_interfaces),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_looking_up),
		cmocka_unit_test(test_own_addresses),
		cmocka_unit_test(test_wrong_policies),
		cmocka_unit_test(test_addresses_in_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
