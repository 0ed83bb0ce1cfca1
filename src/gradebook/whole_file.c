/* SPDX-License-Identifier: Apache-2.0 - new file, sync, rename; see whole_file.h. */
#include "gradebook/whole_file.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define WRITE_STEP (256u << 10)

int whole_file_open(struct whole_file *f, const char *path, struct error *err)
{
	char random[17];
	uint8_t b[8];

	*f = (struct whole_file){.fd = -1};
	id_random(b, sizeof(b));
	id_hex(random, b, sizeof(b));
	if (text_copy(f->path, sizeof(f->path), path) ||
		text_format(f->temporary, sizeof(f->temporary), "%s.%s.tmp", path, random))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", path);
	f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return f->fd < 0 ? error_sys(err, errno, "%s", f->temporary) : 0;
}

static int flush(struct whole_file *f, struct error *err)
{
	int r = path_write_fd(f->fd, buffer_bytes(&f->pending), buffer_length(&f->pending));

	buffer_clear(&f->pending);
	return r ? error_sys(err, r, "%s: cannot write", f->path) : 0;
}

int whole_file_add(struct whole_file *f, const void *bytes, size_t count, struct error *err)
{
	if (buffer_add(&f->pending, bytes, count))
		return error_set(err, -ENOMEM, "out of memory");
	return buffer_length(&f->pending) < WRITE_STEP ? 0 : flush(f, err);
}

static int sync_folder(const char *path, struct error *err)
{
	char folder[4096];
	char *slash;

	text_copy(folder, sizeof(folder), path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	else
		text_copy(folder, sizeof(folder), ".");
	cleanup_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		return error_sys(err, errno, "%s", folder);
	return 0;
}

int whole_file_close(struct whole_file *f, struct error *err)
{
	int r = flush(f, err);

	if (!r && fsync(f->fd))
		r = error_sys(err, errno, "%s: cannot write", f->path);
	if (!r && rename(f->temporary, f->path))
		r = error_sys(err, errno, "%s", f->path);
	if (r) {
		whole_file_abandon(f);
		return r;
	}
	close_fd(&f->fd);
	buffer_fini(&f->pending);
	return sync_folder(f->path, err);
}

/* "NAME.<16 hexadecimal digits>.tmp", as above and in path_write_whole() */
static bool is_temporary(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '.' &&
	       strspn(entry + n + 1, "0123456789abcdef") == 16 &&
	       strcmp(entry + n + 17, ".tmp") == 0;
}

void whole_file_sweep(const char *folder, const char *name)
{
	cleanup_dir DIR *dir = opendir(folder);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (is_temporary(e->d_name, name))
			unlinkat(dirfd(dir), e->d_name, 0);
	}
}

void whole_file_abandon(struct whole_file *f)
{
	if (f->fd >= 0)
		unlink(f->temporary);
	close_fd(&f->fd);
	buffer_fini(&f->pending);
}
