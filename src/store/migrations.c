/* SPDX-License-Identifier: Apache-2.0 - the tables of the store, version by version. */
#include "store/sqlite_internal.h"

#include "base/cleanup.h"

#include <errno.h>

/*
 * Each entry brings the tables from the version before it to its own (index + 1), which is kept in
 * SQLite's user_version. An entry that was released is never changed.
 */
static const char *const migrations[] = {
	/* 1 */
	"CREATE TABLE run ("
	" id INTEGER PRIMARY KEY,"
	" key TEXT NOT NULL," /* digest of all of store_key */
	" assignment TEXT NOT NULL,"
	" tests_digest TEXT NOT NULL,"
	" image_digest TEXT NOT NULL,"
	" engine TEXT NOT NULL,"
	" started TEXT NOT NULL);"
	"CREATE INDEX run_key ON run (key, id);"
	"CREATE TABLE job ("
	" run INTEGER NOT NULL REFERENCES run (id),"
	" student TEXT NOT NULL,"
	" digest TEXT NOT NULL,"
	" state INTEGER NOT NULL," /* enum store_job_state */
	" was INTEGER NOT NULL,"   /* the state before it was claimed */
	" token INTEGER NOT NULL," /* of the last claim */
	" status TEXT NOT NULL,"   /* of its record once it is done, else '' */
	" PRIMARY KEY (run, student)) WITHOUT ROWID;"
	"CREATE INDEX job_state ON job (run, state, student);"
	"CREATE TABLE record ("
	" seq INTEGER PRIMARY KEY," /* 1, 2, 3, … without gaps */
	" run INTEGER NOT NULL REFERENCES run (id),"
	" student TEXT NOT NULL,"
	" digest TEXT NOT NULL,"
	" status TEXT NOT NULL,"
	" time TEXT NOT NULL,"
	" body TEXT NOT NULL,"
	" previous TEXT NOT NULL," /* hash of the record before it; '' for the first */
	" hash TEXT NOT NULL);"
	"CREATE INDEX record_student ON record (run, student, seq);",

	/* 2: the platform. Times are milliseconds since 1970, 0 for never. */
	"CREATE TABLE api_key ("
	" id TEXT PRIMARY KEY,"
	" hash TEXT NOT NULL UNIQUE," /* SHA-256 of the whole key */
	" name TEXT NOT NULL,"
	" access TEXT NOT NULL,"
	" account INTEGER NOT NULL," /* 1: sees what every key made */
	" created_ms INTEGER NOT NULL,"
	" revoked_ms INTEGER NOT NULL DEFAULT 0);"
	"CREATE TABLE sandbox ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" id TEXT NOT NULL UNIQUE,"
	" owner TEXT NOT NULL," /* api_key.id */
	" name TEXT,"
	" state INTEGER NOT NULL," /* enum store_sandbox_state */
	" vcpu INTEGER NOT NULL,"
	" memory_mib INTEGER NOT NULL,"
	" disk_mib INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL,"
	" ready_ms INTEGER NOT NULL DEFAULT 0,"
	" expires_ms INTEGER NOT NULL DEFAULT 0,"
	" ended_ms INTEGER NOT NULL DEFAULT 0,"
	" active_ms INTEGER NOT NULL DEFAULT 0,"
	" deleted_ms INTEGER NOT NULL DEFAULT 0,"
	" stop_reason TEXT NOT NULL DEFAULT '',"
	" detail TEXT NOT NULL DEFAULT '',"
	" isolation TEXT NOT NULL DEFAULT '',"
	" labels TEXT NOT NULL," /* JSON object of strings */
	" spec TEXT NOT NULL);"  /* JSON object: everything else that was asked for */
	"CREATE INDEX sandbox_live ON sandbox (state) WHERE state < 3;"
	"CREATE UNIQUE INDEX sandbox_name ON sandbox (owner, name) WHERE state < 3;"
	"CREATE INDEX sandbox_owner ON sandbox (owner, seq);"
	"CREATE TABLE label ("
	" sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,"
	" name TEXT NOT NULL,"
	" value TEXT NOT NULL,"
	" PRIMARY KEY (sandbox, name)) WITHOUT ROWID;"
	"CREATE INDEX label_value ON label (name, value, sandbox);"
	"CREATE TABLE replay ("
	" owner TEXT NOT NULL,"
	" key TEXT NOT NULL,"
	" hash TEXT NOT NULL,"     /* of the request */
	" server TEXT NOT NULL,"   /* the process that works on it; '' once answered */
	" resource TEXT NOT NULL," /* what it has made, '' when nothing yet */
	" status INTEGER NOT NULL,"
	" body TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL,"
	" PRIMARY KEY (owner, key)) WITHOUT ROWID;"
	"CREATE INDEX replay_created ON replay (created_ms);"
	"CREATE TABLE upload ("
	" id TEXT PRIMARY KEY,"
	" sandbox TEXT NOT NULL,"
	" archive INTEGER NOT NULL,"
	" path TEXT NOT NULL,"
	" size INTEGER NOT NULL," /* -1: not known before */
	" sha256 TEXT NOT NULL,"
	" mode INTEGER NOT NULL,"
	" root INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;",

	/* what a key may spend in 24 hours */
	"ALTER TABLE api_key ADD COLUMN daily_limit_micros INTEGER CHECK (daily_limit_micros >= "
	"0);",

	/* money: see store/money.h */
	"CREATE TABLE hold ("
	" sandbox TEXT PRIMARY KEY REFERENCES sandbox (id),"
	" payer TEXT NOT NULL,"             /* who has made the sandbox */
	" open INTEGER NOT NULL DEFAULT 1," /* it can run, and the hold stands */
	" lease INTEGER NOT NULL DEFAULT 1,"
	" held_micros INTEGER NOT NULL,"
	" charged_micros INTEGER NOT NULL DEFAULT 0,"
	" until_ms INTEGER NOT NULL DEFAULT 0,"
	" cap_micros INTEGER NOT NULL," /* -1: none */
	" bounded INTEGER NOT NULL,"
	" cpu_price INTEGER NOT NULL," /* of a vCPU-hour, for as long as it lives */
	" memory_price INTEGER NOT NULL,"
	" floor_millis INTEGER NOT NULL,"
	" reserved INTEGER NOT NULL,"
	/* what its machine had used when it was ready; then since; then of that what is charged */
	" base_cpu_us INTEGER NOT NULL DEFAULT 0,"
	" base_running_us INTEGER NOT NULL DEFAULT 0,"
	" cpu_us INTEGER NOT NULL DEFAULT 0,"
	" running_us INTEGER NOT NULL DEFAULT 0,"
	" seen_ms INTEGER NOT NULL DEFAULT 0,"
	" settled_cpu_us INTEGER NOT NULL DEFAULT 0,"
	" settled_running_us INTEGER NOT NULL DEFAULT 0,"
	" stop_for TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
	"CREATE INDEX hold_open ON hold (payer, held_micros) WHERE open = 1;"
	"CREATE TABLE charge ("
	" seq INTEGER PRIMARY KEY,"
	" sandbox TEXT NOT NULL,"
	" lease INTEGER NOT NULL,"
	" payer TEXT NOT NULL,"
	" micros INTEGER NOT NULL,"
	" cpu_us INTEGER NOT NULL,"
	" billed_cpu_us INTEGER NOT NULL,"
	" running_us INTEGER NOT NULL,"
	" vcpu INTEGER NOT NULL,"
	" memory_mib INTEGER NOT NULL,"
	" cpu_price INTEGER NOT NULL,"
	" memory_price INTEGER NOT NULL,"
	" settled_ms INTEGER NOT NULL,"
	" UNIQUE (sandbox, lease));"
	"CREATE INDEX charge_payer ON charge (payer, settled_ms, micros);"
	"CREATE INDEX charge_settled ON charge (settled_ms);"
	"CREATE TRIGGER charge_is_kept BEFORE DELETE ON charge"
	" BEGIN SELECT raise(ABORT, 'charges are kept'); END;"
	"CREATE TRIGGER charge_stands BEFORE UPDATE ON charge"
	" BEGIN SELECT raise(ABORT, 'charges stand'); END;"
	"CREATE TABLE purse ("
	" payer TEXT PRIMARY KEY,"
	" carry INTEGER NOT NULL) WITHOUT ROWID;", /* see meter/meter.h */

	/* people: the owner, sessions, programs that ask for keys, the audit log */
	"ALTER TABLE api_key ADD COLUMN products TEXT NOT NULL DEFAULT '';"
	"CREATE TABLE owner ("
	" id INTEGER PRIMARY KEY CHECK (id = 1)," /* there is one */
	" name TEXT NOT NULL,"
	" password TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL,"
	" changed_ms INTEGER NOT NULL);"
	"CREATE TABLE owner_link ("
	" hash TEXT PRIMARY KEY,"
	" created_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE session ("
	" hash TEXT PRIMARY KEY,"
	" address TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL,"
	" used_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE browser ("
	" hash TEXT PRIMARY KEY,"
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE approval ("
	" user_code TEXT PRIMARY KEY,"
	" device TEXT NOT NULL UNIQUE," /* SHA-256 of the device code */
	" state INTEGER NOT NULL,"      /* enum store_approval_state */
	" agent TEXT NOT NULL,"
	" machine TEXT NOT NULL,"
	" purpose TEXT NOT NULL,"
	" access TEXT NOT NULL,"
	" products TEXT NOT NULL,"
	" daily_limit_micros INTEGER NOT NULL," /* -1: none was asked for */
	" public_key TEXT NOT NULL,"
	" address TEXT NOT NULL,"
	" grp TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL,"
	" decided_ms INTEGER NOT NULL DEFAULT 0,"
	" polled_ms INTEGER NOT NULL DEFAULT 0,"
	" delivered_ms INTEGER NOT NULL DEFAULT 0,"
	" key_id TEXT NOT NULL DEFAULT '',"
	" encrypted TEXT NOT NULL DEFAULT '');"
	"CREATE INDEX approval_expires ON approval (expires_ms);"
	"CREATE TABLE audit ("
	" seq INTEGER PRIMARY KEY," /* 1, 2, 3, … without gaps */
	" time_ms INTEGER NOT NULL,"
	" who TEXT NOT NULL,"
	" action TEXT NOT NULL,"
	" target TEXT NOT NULL,"
	" detail TEXT NOT NULL,"
	" address TEXT NOT NULL,"
	" request TEXT NOT NULL,"
	" previous TEXT NOT NULL," /* hash of the entry before it; '' for the first */
	" hash TEXT NOT NULL);"
	"CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN"
	" SELECT RAISE(ABORT, 'the audit log is only added to'); END;"
	"CREATE TRIGGER audit_delete BEFORE DELETE ON audit BEGIN"
	" SELECT RAISE(ABORT, 'the audit log is only added to'); END;",

	/* pauses, the machine of a sandbox (another after a restart), and what has happened */
	"ALTER TABLE sandbox ADD COLUMN phase INTEGER NOT NULL DEFAULT 0;" /* enum ..._phase */
	"ALTER TABLE sandbox ADD COLUMN paused_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandbox ADD COLUMN paused_until_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandbox ADD COLUMN paused_total_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandbox ADD COLUMN machine TEXT NOT NULL DEFAULT '';"
	"UPDATE sandbox SET machine = id;"
	"CREATE INDEX sandbox_machine ON sandbox (machine);"
	"CREATE TABLE event ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" time_ms INTEGER NOT NULL,"
	" owner TEXT NOT NULL,"
	" sandbox TEXT NOT NULL,"
	" type TEXT NOT NULL,"
	" data TEXT NOT NULL);" /* JSON object */
	"CREATE INDEX event_owner ON event (owner, seq);"
	"CREATE INDEX event_sandbox ON event (sandbox, seq);"
	"CREATE INDEX event_time ON event (time_ms);"
	/* machines that are no sandbox's: made in advance, or to be stopped */
	"CREATE TABLE spare ("
	" id TEXT PRIMARY KEY,"
	" shape TEXT NOT NULL,"
	" memory_mib INTEGER NOT NULL,"
	" state INTEGER NOT NULL," /* enum store_spare_state */
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX spare_shape ON spare (state, shape);",

	/* 13: which of the CPUs that are set aside is a sandbox's own, from 1 */
	"ALTER TABLE sandbox ADD COLUMN seat INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX sandbox_seat ON sandbox (seat) WHERE seat > 0;",

	/* 14: how much the answers that are kept for each key take */
	"ALTER TABLE replay ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX replay_size ON replay (owner, created_ms, bytes);",

	/* 15: builds of images that are under way */
	"CREATE TABLE build ("
	" name TEXT PRIMARY KEY," /* of the image: one at a time */
	" owner TEXT NOT NULL,"
	" server TEXT NOT NULL,"
	" state INTEGER NOT NULL," /* 0 waits, 1 claims its room, 2 has it */
	" vcpu INTEGER NOT NULL,"
	" memory_mib INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;",
};

int store_migrate(struct store *store, struct error *err)
{
	const int newest = (int)ARRAY_SIZE(migrations);
	sqlite3_stmt *s = store_prepare(store, err, "PRAGMA user_version", "");
	char pragma[64];
	int version, r;

	if (!s)
		return -EIO;
	r = sqlite3_step(s);
	version = r == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
	store_done(store, s);
	if (version < 0)
		return store_error(store, r, err);
	if (version > newest)
		return error_set(err, -EINVAL,
			"%s: was made by a newer Sealmark (format %d, this one knows %d)",
			store->path, version, newest);
	for (; version < newest; version++) {
		r = sqlite3_exec(store->db, migrations[version], NULL, NULL, NULL);
		if (r != SQLITE_OK)
			return store_error(store, r, err);
	}
	sqlite3_snprintf(sizeof(pragma), pragma, "PRAGMA user_version = %d", newest);
	r = sqlite3_exec(store->db, pragma, NULL, NULL, NULL);
	return r == SQLITE_OK ? 0 : store_error(store, r, err);
}
