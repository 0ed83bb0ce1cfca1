/* SPDX-License-Identifier: Apache-2.0 - fuzzes the HTTP server with raw bytes on a connection. */
#include "api/internal.h"
#include "base/log.h"
#include "base/text.h"

#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * One server runs in this process, on a socket in a folder of its own, where no monitor is
 * installed, so that everything up to the start of a machine is reached. An input is what
 * a client sends; KEY in it stands for a key that holds. After each input a plain request must be
 * answered at times, so that a server that no longer serves is a finding.
 */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static struct api_server *server;
static char folder[64] = "/tmp/sealmark-fuzz-XXXXXX", socket_path[108], key[API_KEY_SIZE];
static char address[160], store_path[128];

static void check(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "fuzz_http: %s\n", what);
		abort();
	}
}

static void write_file(const char *name, const char *text)
{
	char path[160];
	FILE *file;

	text_format(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	check(file && fputs(text, file) >= 0 && fclose(file) == 0, path);
}

static void make_home(void)
{
	static const char *const folders[] = {"images", "images/default", "images/default/1", NULL};
	char path[160];

	check(mkdtemp(folder) != NULL, "no folder");
	for (size_t i = 0; folders[i]; i++) {
		text_format(path, sizeof(path), "%s/%s", folder, folders[i]);
		check(mkdir(path, 0755) == 0, path);
	}
	write_file("images/default/1/rootfs.erofs", "no file system");
	write_file("images/default/1/manifest.json",
		"{\"name\":\"default\",\"version\":1,\"description\":\"\","
		"\"recipe_digest\":\"0123456789ab\","
		"\"sha256\":"
		"\"3ab8bd6dd4cc4df1bb4c3a3ac7b7a8d3d4d5d3e4c1f2a3b4c5d6e7f8091a2b3c\","
		"\"size_bytes\":14,\"created\":\"2026-01-01T00:00:00Z\",\"suite\":\"trixie\","
		"\"env\":{},\"packages\":{}}");
	text_format(path, sizeof(path), "%s/images/default/latest", folder);
	check(symlink("1", path) == 0, path);
}

static void remove_home(void)
{
	char command[] = "rm";
	char *const argv[] = {command, (char *)"-rf", folder, NULL};

	api_stop(server);
	server = NULL;
	if (__lsan_do_recoverable_leak_check())
		_exit(1);
	execv("/bin/rm", argv);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct api_options options = API_OPTIONS_INIT;
	struct store_api_key record;
	struct error err = {0};

	make_home();
	setenv("SEALMARK_LIBEXEC", folder, 1);
	text_format(socket_path, sizeof(socket_path), "%s/s", folder);
	text_format(address, sizeof(address), "unix:%s", socket_path);
	text_format(store_path, sizeof(store_path), "%s/db", folder);
	options.home = folder;
	options.store = store_path;
	options.listen = address;
	options.engine = "fake";
	options.isolation = "none";
	options.rate = 100000;
	api_options_complete(&options);
	if (api_start(&options, false, &server, &err))
		check(false, error_message(&err));
	if (api_key_create(api_store(server), "fuzz", "full", true, key, &record, &err))
		check(false, error_message(&err));
	atexit(remove_home);
	return 0;
}

static int dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	text_copy(to.sun_path, sizeof(to.sun_path), socket_path);
	check(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0,
		"the server takes no connection");
	return fd;
}

/* The answer's first bytes; everything is read, so that the server is done with it. */
static void talk(const void *bytes, size_t count, char *head, size_t size)
{
	struct timeval patience = {.tv_sec = 8};
	char rest[4096];
	size_t got = 0;
	ssize_t n;
	int fd = dial();

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	for (size_t sent = 0; sent < count; sent += (size_t)n) {
		n = send(fd, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
		if (n <= 0)
			break;
	}
	shutdown(fd, SHUT_WR);
	while ((n = recv(fd, rest, sizeof(rest), 0)) > 0) {
		for (ssize_t i = 0; i < n && got + 1 < size; i++)
			head[got++] = rest[i];
	}
	head[got] = 0;
	close(fd);
}

/* KEY becomes the key. */
static size_t with_key(const uint8_t *bytes, size_t count, char *out, size_t size)
{
	size_t used = 0, n = strlen(key);

	for (size_t i = 0; i < count && used + n < size;) {
		if (count - i >= 3 && memcmp(bytes + i, "KEY", 3) == 0) {
			memcpy(out + used, key, n);
			used += n;
			i += 3;
		} else {
			out[used++] = (char)bytes[i++];
		}
	}
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static const char health[] =
		"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	static unsigned long runs;
	char text[16384], head[64];
	size_t n = with_key(bytes, count, text, sizeof(text));

	talk(text, n, head, sizeof(head));
	check(!head[0] || text_starts(head, "HTTP/1.") || text_starts(head, "<html>"),
		"an answer that is none");
	if (runs++ % 64 == 0) {
		talk(health, sizeof(health) - 1, head, sizeof(head));
		check(text_starts(head, "HTTP/1.1 200"), "the server serves no more");
	}
	return 0;
}
