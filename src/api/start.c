/* SPDX-License-Identifier: Apache-2.0 - begin and end of the server: options, address, store. */
#include "api/builds.h"
#include "api/people.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/engine.h"
#include "image/build.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG  256
#define IDLE_S   75
#define PAUSED_S 86400 /* a day */
#define BUILDS   1
#define QUEUED   16
#define RATE     50
#define PEM_MOST (1u << 20)

/* --- the address --- */

/* A socket that nobody listens on any more is in the way; one that is in use is not ours. */
static int clear_socket(const struct sockaddr_un *address, struct error *err)
{
	struct stat st;

	if (lstat(address->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -EEXIST, "%s: is there, and is no socket", address->sun_path);
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return error_set(
			err, -EADDRINUSE, "%s: another server listens there", address->sun_path);
	unlink(address->sun_path);
	return 0;
}

static int listen_unix(struct api_server *server, const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int fd, r;

	if (text_copy(address.sun_path, sizeof(address.sun_path), path) || !path[0])
		return error_set(err, -EINVAL,
			"listen: unix:%s: a socket's path has 1 to %zu bytes", path,
			sizeof(address.sun_path) - 1);
	r = clear_socket(&address, err);
	if (r)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket");
	mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	umask(mask);
	if (r || listen(fd, BACKLOG)) {
		r = error_sys(err, r ? r : errno, "%s", path);
		close(fd);
		return r;
	}
	text_copy(server->socket_path, sizeof(server->socket_path), path);
	text_format(server->address, sizeof(server->address), "unix:%s", path);
	return fd;
}

/* "HOST:PORT" or "[V6]:PORT" in two */
static int split_address(const char *text, char *host, size_t size, char *port, size_t port_size)
{
	const char *colon = strrchr(text, ':');
	size_t n;

	if (!colon || text_copy(port, port_size, colon + 1) || !port[0])
		return -EINVAL;
	n = (size_t)(colon - text);
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	return n ? text_format(host, size, "%.*s", (int)n, text) : -EINVAL;
}

/* where it really listens, since port 0 is any free one */
static void say_address(struct api_server *server, int fd, const char *host)
{
	struct sockaddr_storage bound = {0};
	socklen_t size = sizeof(bound);
	unsigned port = 0;

	if (getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
		port = bound.ss_family == AF_INET6
			       ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
			       : ntohs(((struct sockaddr_in *)&bound)->sin_port);
	text_format(server->address, sizeof(server->address),
		strchr(host, ':') ? "%s://[%s]:%u" : "%s://%s:%u",
		server->options.tls_cert ? "https" : "http", host, port);
}

static int listen_tcp(struct api_server *server, const char *text, struct error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	char host[256], port[16];
	int fd, r;

	if (split_address(text, host, sizeof(host), port, sizeof(port)))
		return error_set(err, -EINVAL,
			"listen: \"%s\" is neither HOST:PORT, as 127.0.0.1:8080, nor unix:PATH",
			text);
	r = getaddrinfo(host, port, &hints, &found);
	if (r)
		return error_set(err, -EINVAL, "listen: %s: %s", text, gai_strerror(r));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	r = fd < 0 ? -errno : 0;
	if (!r)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (!r && (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, BACKLOG)))
		r = -errno;
	freeaddrinfo(found);
	if (r) {
		close_fd(&fd);
		return error_sys(err, r, "listen: %s", text);
	}
	say_address(server, fd, host);
	return fd;
}

static int open_listener(struct api_server *server, struct error *err)
{
	const char *text = server->options.listen;

	return text_starts(text, "unix:") ? listen_unix(server, text + 5, err)
					  : listen_tcp(server, text, err);
}

/* --- what it needs --- */

static int read_pem(const char *path, char **out, struct error *err)
{
	struct buffer text = {0};
	int r = path_read(path, PEM_MOST, &text, err);

	if (!r && !(*out = buffer_steal(&text)))
		r = error_set(err, -ENOMEM, "out of memory");
	buffer_fini(&text);
	return r;
}

static int read_tls(struct api_server *server, struct error *err)
{
	const struct api_options *o = &server->options;
	int r;

	if (!o->tls_cert != !o->tls_key)
		return error_set(err, -EINVAL, "--tls-cert and --tls-key belong together");
	if (!o->tls_cert)
		return 0;
	r = read_pem(o->tls_cert, &server->cert, err);
	return r ? r : read_pem(o->tls_key, &server->key, err);
}

static uint64_t host_memory_mib(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size >> 20 : 1024;
}

void api_options_complete(struct api_options *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (!o->listen)
		o->listen = "127.0.0.1:8080";
	if (!o->engine)
		o->engine = "auto";
	if (!o->isolation)
		o->isolation = "process";
	if (!o->sandboxes_most)
		o->sandboxes_most = 8 * (uint32_t)(cpus > 0 ? cpus : 1);
	if (!o->memory_most_mib)
		o->memory_most_mib = (uint32_t)(host_memory_mib() * 3 / 4);
	if (!o->rate)
		o->rate = RATE;
	if (!o->spares_memory_mib)
		o->spares_memory_mib = o->memory_most_mib / 4;
	if (!o->paused_most_s)
		o->paused_most_s = PAUSED_S;
	if (!o->builds_most)
		o->builds_most = BUILDS;
	if (!o->vcpu_most)
		o->vcpu_most = o->sandboxes_most + o->builds_most;
	if (!o->builds_queued_most)
		o->builds_queued_most = QUEUED;
	if (!o->build_memory_mib)
		o->build_memory_mib = IMAGE_BUILD_MEMORY_MIB;
	if (!o->idle_s)
		o->idle_s = IDLE_S;
}

static void set_quota(struct api_server *server)
{
	const struct api_options *o = &server->options;

	server->quota = (struct store_quota){.sandboxes = o->sandboxes_most,
		.memory_mib = o->memory_most_mib,
		.vcpu = o->vcpu_most,
		.reserved = o->reserved_most,
		.key_sandboxes = o->key_sandboxes_most,
		.key_memory_mib = o->key_memory_most_mib,
		.key_vcpu = o->key_vcpu_most};
	server->vcpu_most = 1; /* a machine has one CPU (DESIGN §3) */
}

static int check_isolation(const char *wanted, struct error *err)
{
	static const char *const known[] = {"none", "process", "kernel", "hardware"};

	for (size_t i = 0; wanted && i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i], wanted) == 0)
			return 0;
	}
	return wanted ? error_set(err, -EINVAL,
				"--require-isolation: \"%.60s\" is not one of process, kernel, "
				"hardware",
				wanted)
		      : 0;
}

static int check_engine(struct api_server *server, struct error *err)
{
	const struct engine *engine = engine_find(server->options.engine, server->home, err);
	struct image *image;

	if (!engine)
		return err->code;
	if (image_resolve(server->home, "default", &image, err))
		return err->code;
	image_free(image);
	return 0;
}

static void set_waiting(struct api_server *server)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->hashing, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&server->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* scheme and host, as a browser writes an Origin: it is compared with one */
static int check_public_url(const char *url, struct error *err)
{
	const char *host = !url                           ? NULL
			   : text_starts(url, "https://") ? url + 8
			   : text_starts(url, "http://")  ? url + 7
							  : "";

	if (!url || (host[0] && strlen(url) < 200 && !strpbrk(host, "/?#@\\\"'<> \t\r\n") &&
			    text_is_utf8(url, strlen(url))))
		return 0;
	return error_set(err, -EINVAL,
		"publicUrl: \"%.100s\" is not as https://sealmark.example.org: http or https, a "
		"host, no path",
		url);
}

static int prepare(struct api_server *server, bool check, struct error *err)
{
	const struct api_options *o = &server->options;
	int r = o->home ? text_copy(server->home, sizeof(server->home), o->home)
			: path_home(server->home, sizeof(server->home), err);

	if (r)
		return r == -ENAMETOOLONG ? error_set(err, r, "home is too long") : r;
	set_quota(server);
	server->rate = rate_new(o->rate);
	server->strangers = rate_new(o->rate);
	server->guard = guard_new();
	server->console = console_load();
	if (!server->rate || !server->strangers || !server->guard)
		return error_set(err, -ENOMEM, "out of memory");
	r = read_tls(server, err);
	if (!r)
		r = check_public_url(o->public_url, err);
	if (!r)
		r = check_isolation(o->isolation, err);
	if (!r)
		r = check_engine(server, err);
	if (!r)
		r = reserved_start(server, err);
	if (!r && !check)
		r = serving_begin(server, err);
	if (!r)
		r = store_open(o->store, &server->store, err);
	return r;
}

int api_start(
	const struct api_options *options, bool check, struct api_server **out, struct error *err)
{
	struct api_server *server = calloc(1, sizeof(*server));
	struct error own = {0};
	int fd, r;

	*out = NULL;
	err = err ? err : &own;
	if (!server)
		return error_set(err, -ENOMEM, "out of memory");
	server->options = *options;
	api_options_complete(&server->options);
	server->inotify_fd = server->wake_fd = server->money_fd = server->lock_fd = -1;
	server->uploads_fd = -1;
	id_uuid(server->epoch);
	set_waiting(server);
	if (!check)
		serving_files();
	r = prepare(server, check, err);
	fd = r ? -1 : open_listener(server, err);
	if (!r && fd < 0)
		r = fd;
	if (!r && !check) {
		r = builds_start(server, err);
		if (!r)
			r = uploads_start(server, err);
		if (!r)
			r = watch_start(server, err);
		if (!r)
			r = money_start(server, err);
		if (!r)
			r = spares_start(server, err);
		if (!r)
			r = server_listen(server, fd, err);
		if (!r)
			fd = -1; /* the daemon's now */
	}
	close_fd(&fd);
	if (r || check)
		api_stop(server);
	else
		*out = server;
	return r;
}

const char *api_address(const struct api_server *server)
{
	return server->address;
}

const char *api_public_url(const struct api_server *server)
{
	const char *url = server->options.public_url;

	return url ? url : server->address;
}

struct store *api_store(struct api_server *server)
{
	return server->store;
}

void api_stop(struct api_server *server)
{
	if (!server)
		return;
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	terminals_stop(server);
	builds_halt(server);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	pthread_mutex_lock(&server->lock);
	while (server->starting_count)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
	money_stop(server);
	builds_stop(server);
	spares_stop(server);
	watch_stop(server);
	builds_free(server);
	close_fd(&server->uploads_fd);
	if (server->socket_path[0])
		unlink(server->socket_path);
	store_close(server->store);
	close_fd(&server->lock_fd);
	rate_free(server->rate);
	rate_free(server->strangers);
	guard_free(server->guard);
	console_free(server->console);
	pthread_mutex_destroy(&server->hashing);
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->lock);
	free(server->starting);
	free(server->reserved_cpus);
	free(server->cert);
	free(server->key);
	free(server);
}
