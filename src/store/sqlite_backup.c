/* SPDX-License-Identifier: Apache-2.0 - a copy of the store in one file, while others write to it.
 */
#include "base/cleanup.h"
#include "base/text.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * SQLite writes the copy as one transaction sees it, so that it is whole whatever the server does
 * meanwhile; files that were copied one after the other (the store and its log) would not be. It
 * is written under another name, checked, synced, and takes its own name last: a file with the name
 * asked for is a backup, and one that is there already is never replaced. The store is opened as it
 * is: a copy that is made before an upgrade has the old form, also when the new program makes it.
 */
#define BUSY_MS 60000

static int copy_into(const char *from, const char *to, struct error *err)
{
	sqlite3_stmt *s = NULL;
	sqlite3 *db = NULL;
	int r = 0;

	if (sqlite3_open_v2(from, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
		sqlite3_busy_timeout(db, BUSY_MS) != SQLITE_OK ||
		sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &s, NULL) != SQLITE_OK ||
		sqlite3_bind_text(s, 1, to, -1, SQLITE_STATIC) != SQLITE_OK ||
		sqlite3_step(s) != SQLITE_DONE)
		r = error_set(
			err, -EIO, "%s: %s", from, db ? sqlite3_errmsg(db) : "cannot be opened");
	sqlite3_finalize(s);
	sqlite3_close(db);
	return r;
}

static int check(const char *path, struct error *err)
{
	sqlite3_stmt *s = NULL;
	sqlite3 *db = NULL;
	int r = 0;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
		sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL) != SQLITE_OK ||
		sqlite3_step(s) != SQLITE_ROW)
		r = error_set(
			err, -EIO, "%s: %s", path, db ? sqlite3_errmsg(db) : "cannot be opened");
	else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok") != 0)
		r = error_set(err, -EIO, "the store is damaged: %.200s",
			(const char *)sqlite3_column_text(s, 0));
	sqlite3_finalize(s);
	sqlite3_close(db);
	return r;
}

static int sync_path(const char *path, int flags, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

	return fd < 0 || fsync(fd) ? error_sys(err, errno, "%s", path) : 0;
}

/* The folder's entry too, or a power cut could take the name away again. */
static int give_name(const char *made, const char *path, struct error *err)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int r = slash ? text_format(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path)
		      : text_copy(folder, sizeof(folder), ".");

	if (r)
		return error_set(err, r, "%s: the path is too long", path);
	r = sync_path(made, 0, err);
	if (r)
		return r;
	if (renameat2(AT_FDCWD, made, AT_FDCWD, path, RENAME_NOREPLACE))
		return error_sys(err, errno, "%s", path);
	return sync_path(folder, O_DIRECTORY, err);
}

int store_backup(const char *from, const char *path, struct error *err)
{
	char made[PATH_MAX];
	int fd, r;

	if (access(path, F_OK) == 0)
		return error_set(err, -EEXIST, "%s is there already", path);
	if (text_format(made, sizeof(made), "%s.XXXXXX", path))
		return error_set(err, -ENAMETOOLONG, "%s: the path is too long", path);
	/* empty, and nobody else's to read: it holds hashes of keys, and variables of sandboxes */
	fd = mkostemp(made, O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "%s", path);
	close(fd);
	r = copy_into(from, made, err);
	r = r ? r : check(made, err);
	r = r ? r : give_name(made, path, err);
	if (r)
		unlink(made);
	return r;
}
