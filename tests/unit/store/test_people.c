/* SPDX-License-Identifier: Apache-2.0 - links, sessions, approvals and the audit log in a store. */
#include "base/path.h"
#include "base/text.h"
#include "store/people.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	char directory[64], path[128];
	struct store *store;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	text_copy(f->directory, sizeof(f->directory), "/tmp/sealmark-people-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	text_format(f->path, sizeof(f->path), "%s/store.db", f->directory);
	assert_int_equal(store_open(f->path, &f->store, NULL), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	store_close(f->store);
	path_remove_tree(AT_FDCWD, f->directory, NULL);
	free(f);
	return 0;
}

static const struct store_audit entry = {.time_ms = 7,
	.who = "owner",
	.action = "key.created",
	.target = "t",
	.detail = "{}",
	.address = "192.0.2.7",
	.request = "r"};

/* --- the owner --- */

static void make_owner(struct fixture *f, const char *link, const char *password)
{
	struct store_owner owner = {.name = "Ann"};

	text_copy(owner.password, sizeof(owner.password), password);
	assert_int_equal(store_link_put(f->store, link, 1000, 2000, NULL, NULL), 0);
	assert_int_equal(store_link_use(f->store, link, &owner, 1500, NULL, NULL), 0);
}

static void a_link_works_once_in_time_and_until_the_next(void **state)
{
	struct fixture *f = *state;
	struct store_owner owner = {.name = "Ann", .password = "p"}, found;

	assert_int_equal(store_owner_get(f->store, &found, NULL), -ENOENT);
	assert_int_equal(store_link_check(f->store, "a", 1500, NULL), -ENOENT);
	assert_int_equal(store_link_put(f->store, "a", 1000, 2000, NULL, NULL), 0);
	assert_int_equal(store_link_check(f->store, "a", 1999, NULL), 0);
	assert_int_equal(store_link_check(f->store, "a", 2000, NULL), -ENOENT);
	assert_int_equal(store_link_use(f->store, "a", &owner, 2000, NULL, NULL), -ENOENT);
	assert_int_equal(store_link_put(f->store, "b", 1000, 2000, NULL, NULL), 0);
	assert_int_equal(store_link_use(f->store, "a", &owner, 1500, NULL, NULL), -ENOENT);
	assert_int_equal(store_owner_get(f->store, &found, NULL), -ENOENT);
	assert_int_equal(store_link_use(f->store, "b", &owner, 1500, NULL, NULL), 0);
	assert_int_equal(store_link_use(f->store, "b", &owner, 1500, NULL, NULL), -ENOENT);
	assert_int_equal(store_owner_get(f->store, &found, NULL), 0);
	assert_string_equal(found.name, "Ann");
	assert_int_equal(found.created_ms, 1500);
}

static void sessions_end_by_time_idleness_and_password(void **state)
{
	struct fixture *f = *state;
	struct store_session s = {
		.hash = "h", .address = "a", .created_ms = 1000, .expires_ms = 9000};
	struct store_session found;

	make_owner(f, "a", "p1");
	assert_int_equal(store_session_add(f->store, &s, "other", "b", NULL, NULL), -ESTALE);
	assert_int_equal(store_session_add(f->store, &s, "p1", "b", NULL, NULL), 0);
	assert_int_equal(store_session_find(f->store, "h", 2000, 0, &found, NULL), 0);
	assert_int_equal(store_session_find(f->store, "H", 2000, 0, &found, NULL), -ENOENT);
	assert_int_equal(store_session_find(f->store, "h", 9000, 0, &found, NULL), -ENOENT);
	assert_int_equal(store_session_find(f->store, "h", 2000, 1000, &found, NULL), -ENOENT);
	assert_int_equal(store_session_use(f->store, "h", 2000, NULL), 0);
	assert_int_equal(store_session_find(f->store, "h", 2000, 1000, &found, NULL), 0);
	assert_int_equal(store_browser_find(f->store, "b", 2000, NULL), 0);

	assert_int_equal(store_owner_password(f->store, "other", "p2", 3000, NULL, NULL), -ESTALE);
	assert_int_equal(store_session_find(f->store, "h", 2000, 0, &found, NULL), 0);
	assert_int_equal(store_owner_password(f->store, "p1", "p2", 3000, NULL, NULL), 0);
	assert_int_equal(store_session_find(f->store, "h", 2000, 0, &found, NULL), -ENOENT);
	assert_int_equal(store_browser_find(f->store, "b", 2000, NULL), -ENOENT);

	assert_int_equal(store_session_add(f->store, &s, "p2", "b", NULL, NULL), 0);
	make_owner(f, "again", "p3"); /* a lost password */
	assert_int_equal(store_session_find(f->store, "h", 2000, 0, &found, NULL), -ENOENT);
	assert_int_equal(store_session_add(f->store, &s, "p3", "b", NULL, NULL), 0);
	assert_int_equal(store_session_end(f->store, "h", NULL, NULL), 0);
	assert_int_equal(store_session_find(f->store, "h", 2000, 0, &found, NULL), -ENOENT);
}

static void sessions_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_session s = {.address = "a", .expires_ms = 90000}, found;

	make_owner(f, "a", "p");
	for (int i = 0; i < STORE_SESSIONS_MOST + 5; i++) {
		s.created_ms = 1000 + i;
		text_format(s.hash, sizeof(s.hash), "h%d", i);
		assert_int_equal(store_session_add(f->store, &s, "p", s.hash, NULL, NULL), 0);
	}
	assert_int_equal(store_session_find(f->store, "h4", 2000, 0, &found, NULL), -ENOENT);
	assert_int_equal(store_session_find(f->store, "h5", 2000, 0, &found, NULL), 0);
	assert_int_equal(store_browser_find(f->store, "h4", 2000, NULL), -ENOENT);
	assert_int_equal(store_browser_find(f->store, "h5", 2000, NULL), 0);
}

/* --- approvals --- */

static struct store_approval asked(const char *code, const char *device, const char *group)
{
	struct store_approval a = {.agent = (char *)(uintptr_t) "agent",
		.machine = (char *)(uintptr_t) "m",
		.purpose = (char *)(uintptr_t) "p",
		.access = "full",
		.daily_limit_micros = STORE_NO_LIMIT,
		.public_key = (char *)(uintptr_t) "k",
		.address = "192.0.2.7",
		.created_ms = 1000,
		.expires_ms = 2000};

	text_copy(a.user_code, sizeof(a.user_code), code);
	text_copy(a.device, sizeof(a.device), device);
	text_copy(a.group, sizeof(a.group), group);
	return a;
}

static int ask(struct fixture *f, const char *code, const char *device, const char *group)
{
	struct store_approval a = asked(code, device, group);

	return store_approval_add(f->store, &a, 2, 3, NULL);
}

static void requests_are_bounded_by_group_and_in_all(void **state)
{
	struct fixture *f = *state;
	struct store_approval later = asked("E", "e", "g1");

	assert_int_equal(ask(f, "A", "a", "g1"), 0);
	assert_int_equal(ask(f, "A", "b", "g1"), -EEXIST);
	assert_int_equal(ask(f, "B", "b", "g1"), 0);
	assert_int_equal(ask(f, "C", "c", "g1"), -EDQUOT);
	/* a decision does not make room: asking again and again stays bounded */
	assert_int_equal(
		store_approval_refuse(f->store, "B", NULL, STORE_APPROVAL_DENIED, 1100, NULL, NULL),
		0);
	assert_int_equal(ask(f, "C", "c", "g1"), -EDQUOT);
	assert_int_equal(ask(f, "C", "c", "g2"), 0);
	assert_int_equal(ask(f, "D", "d", "g2"), 0);
	assert_int_equal(ask(f, "X", "x", "g3"), -ENOSPC);
	later.created_ms = 2001;
	assert_int_equal(store_approval_add(f->store, &later, 2, 3, NULL), 0);
}

static int grant(struct fixture *f, const char *code, const char *id, int64_t now_ms)
{
	struct store_api_key key = {
		.name = "n", .access = "full", .daily_limit_micros = STORE_NO_LIMIT};

	text_copy(key.id, sizeof(key.id), id);
	return store_approval_grant(f->store, code, &key, id, "sealed", now_ms, &entry, NULL);
}

static int poll(struct fixture *f, const char *device, int64_t now_ms, struct store_approval *out)
{
	return store_approval_poll(f->store, device, now_ms, now_ms - 4000, out, NULL);
}

static void a_grant_is_made_once_polled_and_confirmed(void **state)
{
	struct fixture *f = *state;
	struct store_approval a;
	struct store_api_key key;
	char id[ID_SIZE];

	assert_int_equal(ask(f, "A", "a", "g"), 0);
	assert_int_equal(poll(f, "other", 1100, &a), -ENOENT);
	assert_int_equal(poll(f, "a", 5000, &a), 0);
	assert_int_equal(a.state, STORE_APPROVAL_PENDING);
	assert_string_equal(a.encrypted, "");
	store_approval_fini(&a);
	assert_int_equal(poll(f, "a", 8999, &a), -EAGAIN);
	assert_int_equal(store_approval_confirm(f->store, "a", id, NULL), -ESTALE);

	assert_int_equal(grant(f, "A", "key 1", 1999), 0);
	assert_int_equal(grant(f, "A", "key 2", 1999), -ESTALE);
	assert_int_equal(store_key_find(f->store, "key 2", &key, NULL), -ENOENT);
	assert_int_equal(store_key_find(f->store, "key 1", &key, NULL), 0);
	assert_int_equal(store_approval_refuse(
				 f->store, NULL, "a", STORE_APPROVAL_CANCELED, 1999, NULL, NULL),
		-ESTALE);
	assert_int_equal(poll(f, "a", 9001, &a), 0);
	assert_int_equal(a.state, STORE_APPROVAL_CONNECTED);
	assert_string_equal(a.encrypted, "sealed");
	store_approval_fini(&a);
	assert_int_equal(store_approval_confirm(f->store, "a", id, NULL), 0);
	assert_string_equal(id, "key 1");
	assert_int_equal(poll(f, "a", 19001, &a), 0);
	assert_string_equal(a.encrypted, ""); /* it was fetched */
	store_approval_fini(&a);
}

static void nothing_is_granted_after_its_time(void **state)
{
	struct fixture *f = *state;
	struct store_api_key key;

	assert_int_equal(ask(f, "A", "a", "g"), 0);
	assert_int_equal(grant(f, "A", "key", 2000), -ESTALE);
	assert_int_equal(grant(f, "Z", "key", 1500), -ENOENT);
	assert_int_equal(store_key_find(f->store, "key", &key, NULL), -ENOENT);
}

static void a_key_that_nobody_fetched_is_revoked(void **state)
{
	struct fixture *f = *state;
	struct store_approval a;
	struct store_api_key key;

	assert_int_equal(ask(f, "A", "a", "g"), 0);
	assert_int_equal(ask(f, "B", "b", "g"), 0);
	assert_int_equal(grant(f, "A", "left", 1500), 0);
	assert_int_equal(grant(f, "B", "taken", 1500), 0);
	assert_int_equal(poll(f, "b", 5000, &a), 0);
	store_approval_fini(&a);
	assert_int_equal(store_approval_expire(f->store, 1999, 0, NULL), 0);
	assert_int_equal(store_key_find(f->store, "left", &key, NULL), 0);
	assert_int_equal(store_approval_expire(f->store, 2000, 0, NULL), 0);
	assert_int_equal(store_key_find(f->store, "left", &key, NULL), -ENOENT);
	assert_int_equal(store_key_find(f->store, "taken", &key, NULL), 0);
	assert_int_equal(store_approval_by_code(f->store, "A", &a, NULL), 0);
	store_approval_fini(&a);
	assert_int_equal(store_approval_expire(f->store, 3000, 2001, NULL), 0);
	assert_int_equal(store_approval_by_code(f->store, "A", &a, NULL), -ENOENT);
}

/* --- audit --- */

static int count_entry(void *context, const struct store_audit *audit)
{
	int64_t *last = context;

	assert_true(!last[0] || audit->seq < last[0]); /* the newest first */
	last[0] = audit->seq;
	last[1]++;
	assert_string_equal(audit->who, "owner");
	return 0;
}

static int64_t entries(struct fixture *f, const char *action, int64_t before, uint32_t limit)
{
	int64_t last[2] = {0, 0};

	assert_int_equal(
		store_audit_each(f->store, action, before, limit, count_entry, last, NULL), 0);
	return last[1];
}

static void the_log_is_read_by_page_and_action(void **state)
{
	struct fixture *f = *state;
	struct store_audit other = entry;
	uint64_t count;

	other.action = "keyring.x";
	other.detail = NULL;
	for (int i = 0; i < 5; i++)
		assert_int_equal(store_audit_add(f->store, i == 2 ? &other : &entry, NULL), 0);
	assert_int_equal(entries(f, NULL, 0, 100), 5);
	assert_int_equal(entries(f, NULL, 0, 2), 2);
	assert_int_equal(entries(f, NULL, 4, 100), 3);
	assert_int_equal(entries(f, "key.", 0, 100), 4);
	assert_int_equal(entries(f, "key.created", 0, 100), 4);
	assert_int_equal(entries(f, "key", 0, 100), 0);
	assert_int_equal(store_audit_verify(f->store, &count, NULL), 0);
	assert_int_equal(count, 5);
}

static int run_sql(struct fixture *f, const char *sql)
{
	sqlite3 *db;
	int r;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	r = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	return r;
}

static void the_log_is_only_added_to(void **state)
{
	static const char *const forged[] = {"UPDATE audit SET who = 'stranger' WHERE seq = 2",
		"UPDATE audit SET time_ms = 8 WHERE seq = 2", "DELETE FROM audit WHERE seq = 2",
		"UPDATE audit SET target = 'tt', detail = '}' WHERE seq = 3"};
	struct fixture *f = *state;
	struct error err = {0};
	uint64_t count;

	for (int i = 0; i < 3; i++)
		assert_int_equal(store_audit_add(f->store, &entry, NULL), 0);
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		assert_int_not_equal(run_sql(f, forged[i]), SQLITE_OK);
	assert_int_equal(store_audit_verify(f->store, &count, NULL), 0);
	assert_int_equal(count, 3);
	/* who removes the triggers first is found out by the chain */
	assert_int_equal(
		run_sql(f, "DROP TRIGGER audit_update; DROP TRIGGER audit_delete"), SQLITE_OK);
	assert_int_equal(run_sql(f, forged[0]), SQLITE_OK);
	assert_int_equal(store_audit_verify(f->store, &count, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "entry 2"));
}

static void a_change_that_fails_leaves_no_entry(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(store_key_revoke(f->store, "none", 5, &entry, NULL), -ENOENT);
	assert_int_equal(store_key_limit(f->store, "none", 5, &entry, NULL), -ENOENT);
	assert_int_equal(grant(f, "none", "key", 5), -ENOENT);
	assert_int_equal(entries(f, NULL, 0, 100), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_link_works_once_in_time_and_until_the_next),
		TEST(sessions_end_by_time_idleness_and_password),
		TEST(sessions_are_bounded),
		TEST(requests_are_bounded_by_group_and_in_all),
		TEST(a_grant_is_made_once_polled_and_confirmed),
		TEST(nothing_is_granted_after_its_time),
		TEST(a_key_that_nobody_fetched_is_revoked),
		TEST(the_log_is_read_by_page_and_action),
		TEST(the_log_is_only_added_to),
		TEST(a_change_that_fails_leaves_no_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
