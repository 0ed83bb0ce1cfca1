/* SPDX-License-Identifier: Apache-2.0 - the console's files, read at the start and served from
 * memory. */
#include "api/people.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/*
 * A request is answered from the list of files below, by equality of its path with a name in it, so
 * no path of a client ever reaches the file system. What is no file and has no dot in its last part
 * is a page of the console's own, for which index.html is sent to browsers.
 */
#define FILES_MOST 512
#define FILE_MOST  (8u << 20)
#define DEPTH_MOST 4

#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "          \
	"connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; "        \
	"base-uri 'none'"

struct file {
	char *path; /* "/assets/index-1a2b.js" */
	const char *type;
	void *bytes;
	size_t size;
	char tag[HASH_HEX_SIZE + 2];
};

struct console {
	struct file files[FILES_MOST];
	size_t count;
};

static const struct {
	const char *end, *type;
} types[] = {
	{".html", "text/html; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".mjs", "text/javascript; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".json", "application/json"},
	{".webmanifest", "application/manifest+json"},
	{".svg", "image/svg+xml"},
	{".png", "image/png"},
	{".jpg", "image/jpeg"},
	{".webp", "image/webp"},
	{".ico", "image/x-icon"},
	{".woff2", "font/woff2"},
	{".txt", "text/plain; charset=utf-8"},
};

static const char *type_of(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (text_ends(path, types[i].end))
			return types[i].type;
	}
	return NULL; /* not served: source maps, whatever else lies there */
}

static void add_file(struct console *console, int fd, const char *path)
{
	struct buffer bytes = {0};
	struct file *f = &console->files[console->count];
	char hash[HASH_HEX_SIZE];
	int r;

	if (!type_of(path) || console->count == FILES_MOST)
		return;
	r = path_read_fd(fd, FILE_MOST, &bytes);
	if (r) {
		log_error("the console's %s: %s", path, strerror(-r));
		buffer_fini(&bytes);
		return;
	}
	hash_bytes(buffer_bytes(&bytes), buffer_length(&bytes), hash);
	*f = (struct file){.type = type_of(path), .path = strdup(path)};
	f->size = buffer_length(&bytes);
	f->bytes = buffer_steal(&bytes);
	text_format(f->tag, sizeof(f->tag), "\"%.32s\"", hash);
	if (f->path && f->bytes)
		console->count++;
}

static void add_folder(struct console *console, int dir_fd, const char *prefix, unsigned depth)
{
	cleanup_dir DIR *dir = fdopendir(dir_fd);
	const struct dirent *e;

	if (!dir)
		close(dir_fd);
	while (dir && (e = readdir(dir))) {
		char path[512];
		struct stat st;
		int fd;

		if (e->d_name[0] == '.' ||
			text_format(path, sizeof(path), "%s/%s", prefix, e->d_name))
			continue;
		fd = path_open_beneath(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC, 0);
		if (fd < 0 || fstat(fd, &st)) {
			close_fd(&fd);
		} else if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST) {
			add_folder(console, fd, path, depth + 1);
		} else {
			if (S_ISREG(st.st_mode))
				add_file(console, fd, path);
			close_fd(&fd);
		}
	}
}

struct console *console_load(void)
{
	char path[512];
	struct console *console;
	int fd;

	if (sandbox_helper_path("web", path, sizeof(path), NULL))
		return NULL;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	console = fd < 0 ? NULL : calloc(1, sizeof(*console));
	if (!console) {
		close_fd(&fd);
		return NULL;
	}
	add_folder(console, fd, "", 0);
	return console;
}

void console_free(struct console *console)
{
	if (!console)
		return;
	for (size_t i = 0; i < console->count; i++) {
		free(console->files[i].path);
		free(console->files[i].bytes);
	}
	free(console);
}

static const struct file *find(const struct console *console, const char *path)
{
	for (size_t i = 0; console && i < console->count; i++) {
		if (strcmp(console->files[i].path, path) == 0)
			return &console->files[i];
	}
	return NULL;
}

/* A page of the console's own, which its script shows: only for who wants to see one. A program
 * that asks for what is not there is told so. */
static bool is_page(const struct request *q)
{
	const char *last = strrchr(q->path, '/');
	const char *accept = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "Accept");

	return last && !strchr(last, '.') && !text_starts(q->path, "/assets/") && accept &&
	       strstr(accept, "text/html");
}

static void send_file(struct request *q, const struct file *f)
{
	const char *have =
		MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, "If-None-Match");
	const bool same = have && strcmp(have, f->tag) == 0;

	q->response = MHD_create_response_from_buffer(
		same ? 0 : f->size, f->bytes, MHD_RESPMEM_PERSISTENT);
	if (!q->response) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return;
	}
	q->status = same ? 304 : 200;
	/* names of assets have a hash of what they are */
	q->cache = text_starts(f->path, "/assets/") ? "public, max-age=31536000, immutable"
						    : "no-cache";
	MHD_add_response_header(q->response, "ETag", f->tag);
	MHD_add_response_header(q->response, "Content-Type", f->type);
	MHD_add_response_header(q->response, "Content-Security-Policy", POLICY);
	MHD_add_response_header(q->response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(q->response, "X-Frame-Options", "DENY");
	MHD_add_response_header(q->response, "Cross-Origin-Opener-Policy", "same-origin");
	MHD_add_response_header(q->response, "Cross-Origin-Resource-Policy", "same-origin");
}

/* Without the console there is still a page, with what works without it. */
static void show_plain(struct request *q)
{
	struct buffer body = {0};
	char token[HASH_HEX_SIZE];

	html(&body,
		"<p>Its console is not installed: <code>make web</code> builds "
		"it.</p>\n<ul>\n<li><a href=\"/approve\">Approve a program that asks for a "
		"key</a></li>\n<li><a href=\"/v1/openapi.json\">What programs can do</a></li>\n",
		NULL);
	if (session_find(q)) {
		session_form_token(q, token);
		html(&body,
			"</ul>\n<form method=\"post\" action=\"/signout\">\n"
			"<input type=\"hidden\" name=\"csrf\" value=\"$\">\n"
			"<button>Sign out</button>\n</form>\n",
			token, NULL);
	} else {
		buffer_add_text(&body, "<li><a href=\"/signin\">Sign in</a></li>\n</ul>\n");
	}
	html_page(q, 200, "The server runs", &body);
}

static void console_get(struct request *q)
{
	const struct file *f = find(q->server->console, q->path);

	if (!f && (is_page(q) || strcmp(q->path, "/") == 0))
		f = find(q->server->console, "/index.html");
	if (f)
		send_file(q, f);
	else if (strcmp(q->path, "/") == 0)
		show_plain(q);
	else
		answer_error(q, API_ROUTE_NOT_FOUND, NULL, "There is no %s.", q->path);
}

const struct route console_route = {
	.method = "GET",
	.path = "/",
	.summary = "The console",
	.handle = console_get,
	.flags = ROUTE_OPEN | ROUTE_PAGE | ROUTE_NO_REPLAY,
};
