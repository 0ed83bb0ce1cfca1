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
	sqlite3_finalize(s);
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
