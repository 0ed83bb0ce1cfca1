/* SPDX-License-Identifier: Apache-2.0 - homes for sandboxes of tests, see home.h. */
#include "home.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATIENCE_S 60

unsigned home_count_fds(void)
{
	cleanup_dir DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n;
}

int home_setup(void **state)
{
	struct home *h = calloc(1, sizeof(*h));

	if (!h || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return -1;
	text_copy(h->path, sizeof(h->path), "/tmp/sealmark-test-XXXXXX");
	if (!mkdtemp(h->path) || chmod(h->path, 0755) ||
		text_format(h->script, sizeof(h->script), "%s/script", h->path))
		return -1;
	text_format(h->id, sizeof(h->id), "test-%s", strrchr(h->path, '-') + 1);
	h->fds = home_count_fds();
	h->first_fd = dup(0);
	if (h->first_fd < 0)
		return -1;
	close(h->first_fd);
	*state = h;
	return 0;
}

const char *home_script(struct home *h, const char *text)
{
	cleanup_close int fd = open(h->script, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(path_write_fd(fd, text, strlen(text)), 0);
	return h->script;
}

void home_wait_for_all(void)
{
	alarm(PATIENCE_S); /* a process that stays is a failure, not a test that hangs */
	while (wait(NULL) > 0 || errno == EINTR)
		;
	alarm(0);
}

size_t home_children(pid_t pid, pid_t *out, size_t most)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	text_format(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (n < most && fscanf(f, "%d", &out[n]) == 1)
		n++;
	fclose(f);
	return n;
}

/* 0, or -1 with what is there in `what` */
static int find_cgroup(const char *id, char *what, size_t size)
{
	static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/*"};
	char pattern[128];
	glob_t found;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		text_format(pattern, sizeof(pattern), "%s/sealmark/%s", places[i], id);
		if (glob(pattern, 0, NULL, &found) == 0) {
			text_copy(what, size, found.gl_pathv[0]);
			globfree(&found);
			return -1;
		}
	}
	return 0;
}

/* Sandboxes have a directory as long as they have anything else. */
static int find_directory(const struct home *h, char *what, size_t size)
{
	char path[128];
	struct dirent *e;

	text_format(path, sizeof(path), "%s/sandboxes", h->path);
	cleanup_dir DIR *dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		text_format(what, size, "%s/%.40s", path, e->d_name);
		find_cgroup(e->d_name, what, size);
		return -1;
	}
	return find_cgroup(h->id, what, size);
}

int home_teardown(void **state)
{
	struct home *h = *state;
	unsigned fds = home_count_fds();
	struct error err = {0};
	char what[256];
	int left;

	/* what a failed test has left open would keep its sandbox */
	close_range((unsigned)h->first_fd, ~0u, 0);
	home_wait_for_all();
	left = find_directory(h, what, sizeof(what));
	sandbox_sweep(h->path, &err); /* the next test is another matter */
	path_remove_tree(AT_FDCWD, h->path, &err);
	if (left)
		fail_msg("left: %s", what);
	if (fds != h->fds)
		fail_msg("%u file descriptors open, not %u", fds, h->fds);
	free(h);
	return 0;
}
