/* SPDX-License-Identifier: Apache-2.0 - which server with which key: options, environment, login.
 */
#include "cli/remote.h"

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The login's file is {"current": URL, "servers": {URL: {"key": ..., "since": ...}}}, for this user
 * alone; one that others may read or write is refused, as its keys may be known to them. A key
 * belongs to one server: it is looked up by the URL in use and never sent to another.
 */
#define FILE_MOST (256u << 10)

/* --- URLs --- */

/* the begin of an address: a host, and perhaps a port */
static bool is_loopback(const char *host)
{
	size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	unsigned char ipv4[4];
	char name[64];

	if (text_format(name, sizeof(name), "%.*s", (int)n, host))
		return false;
	/* 127.example.org is a name like others */
	return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
	       (inet_pton(AF_INET, name, ipv4) == 1 && ipv4[0] == 127);
}

static int check_parts(CURLU *u, const char *text, char *out, struct error *err)
{
	char *scheme = NULL, *host = NULL, *port = NULL, *part = NULL;
	static const CURLUPart without[] = {
		CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT};
	int r = 0;

	curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
	curl_url_get(u, CURLUPART_HOST, &host, 0);
	curl_url_get(u, CURLUPART_PORT, &port, 0);
	for (size_t i = 0; i < ARRAY_SIZE(without) && !r; i++) {
		if (curl_url_get(u, without[i], &part, 0) == CURLUE_OK)
			r = -EINVAL;
		curl_free(part);
		part = NULL;
	}
	if (!r && curl_url_get(u, CURLUPART_PATH, &part, 0) == CURLUE_OK && strcmp(part, "/") != 0)
		r = -EINVAL;
	curl_free(part);
	if (r || !scheme || !host)
		r = error_set(err, -EINVAL,
			"\"%.200s\" is not the address of a server: give only scheme, host and "
			"port, as https://sealmark.example:8443",
			text);
	else if (strcmp(scheme, "http") == 0 && !is_loopback(host) &&
		 !getenv("SEALMARK_ALLOW_HTTP"))
		r = error_set(err, -EINVAL,
			"%.200s: a key would travel in the clear: use https (SEALMARK_ALLOW_HTTP=1 "
			"in the environment takes the risk)",
			text);
	else if (text_format(out, REMOTE_URL_SIZE, "%s://%s%s%s", scheme, host, port ? ":" : "",
			 port ? port : ""))
		r = error_set(err, -EINVAL, "the address of the server is too long");
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	return r;
}

int remote_url_check(const char *text, char *out, struct error *err)
{
	CURLU *u;
	int r;

	if (text_starts(text, "unix:")) {
		if (text[5] != '/' || strlen(text) > 100)
			return error_set(err, -EINVAL,
				"\"%.120s\": give the absolute path of a socket, as "
				"unix:/run/sealmark.sock",
				text);
		return text_copy(out, REMOTE_URL_SIZE, text);
	}
	if (!text_starts(text, "http://") && !text_starts(text, "https://"))
		return error_set(err, -EINVAL,
			"\"%.200s\" is not the address of a server: it begins with https:// "
			"(or http:// on this host, or unix:/)",
			text);
	u = curl_url();
	if (!u)
		return error_set(err, -ENOMEM, "out of memory");
	if (curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK)
		r = check_parts(u, text, out, err);
	else
		r = error_set(err, -EINVAL, "\"%.200s\" is not an address", text);
	curl_url_cleanup(u);
	return r;
}

/* --- the login's file --- */

static int file_path(char *out, size_t size, bool make, struct error *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char dir[PATH_MAX - 32];
	int r;

	if (config && config[0] == '/')
		r = text_format(dir, sizeof(dir), "%s/sealmark", config);
	else if (home && home[0] == '/')
		r = text_format(dir, sizeof(dir), "%s/.config/sealmark", home);
	else
		return error_set(err, -ENOENT, "neither $XDG_CONFIG_HOME nor $HOME is set");
	if (r)
		return error_set(err, r, "the path of the configuration is too long");
	if (make) {
		r = path_make(dir, 0700, err);
		if (r)
			return r;
	}
	return text_format(out, size, "%s/credentials.json", dir);
}

/* What is in it; an empty object when there is none. NULL with a message. */
static json_t *file_load(const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct buffer text = {0};
	struct stat st;
	json_t *json = NULL;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return json_object();
	if (fd < 0 || fstat(fd, &st)) {
		error_sys(err, errno, "%s", path);
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077) {
		error_set(err, -EPERM,
			"%s: others may read or change it, or it is not yours: chmod 600 it, or "
			"remove it and log in again",
			path);
		return NULL;
	}
	if (path_read_fd(fd, FILE_MOST, &text) == 0)
		json = json_loadb((char *)buffer_bytes(&text), buffer_length(&text), 0, NULL);
	buffer_fini(&text);
	if (!json_is_object(json)) {
		json_decref(json);
		error_set(err, -EINVAL,
			"%s: is damaged: remove it and log in again (sealmark login)", path);
		return NULL;
	}
	return json;
}

static int file_store(const char *path, const json_t *json, struct error *err)
{
	cleanup_free char *text = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);

	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	return path_write_whole(path, text, strlen(text), 0600, err);
}

int remote_settings_save(const char *url, const char *key, struct error *err)
{
	char path[PATH_MAX], now[CLOCK_STAMP_SIZE];
	json_t *file, *servers;
	int r = file_path(path, sizeof(path), true, err);

	if (r)
		return r;
	file = file_load(path, err);
	if (!file)
		return -EIO;
	clock_stamp(now);
	servers = json_object_get(file, "servers");
	if (!json_is_object(servers)) {
		servers = json_object();
		json_object_set_new(file, "servers", servers);
	}
	json_object_set_new(servers, url, json_pack("{ss ss}", "key", key, "since", now));
	json_object_set_new(file, "current", json_string(url));
	r = file_store(path, file, err);
	json_decref(file);
	return r;
}

int remote_settings_forget(const char *url, bool *found, struct error *err)
{
	char path[PATH_MAX];
	json_t *file, *servers;
	int r = file_path(path, sizeof(path), false, err);

	*found = false;
	if (r)
		return r;
	file = file_load(path, err);
	if (!file)
		return -EIO;
	servers = json_object_get(file, "servers");
	*found = json_object_del(servers, url) == 0;
	if (strcmp(json_text(file, "current"), url) == 0)
		json_object_del(file, "current");
	if (*found)
		r = file_store(path, file, err);
	json_decref(file);
	return r;
}

/* --- all together --- */

/* SEALMARK_name, else RUNTIME_name; an empty one counts as not set. */
static const char *variable(const char *name)
{
	static const char *const prefixes[] = {"SEALMARK_", "RUNTIME_"};
	char full[64];

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const char *value;

		text_format(full, sizeof(full), "%s%s", prefixes[i], name);
		value = getenv(full);
		if (value && *value)
			return value;
	}
	return NULL;
}

static int check_key(const char *key, char *out, struct error *err)
{
	for (const char *p = key; *p; p++) {
		if (*p <= ' ' || *p > '~')
			return error_set(err, -EINVAL,
				"the key in the environment holds a space or another character "
				"that no key has");
	}
	if (text_copy(out, REMOTE_KEY_SIZE, key))
		return error_set(err, -EINVAL, "the key in the environment is too long");
	return 0;
}

static int from_login(struct remote_settings *out, struct error *err)
{
	char path[PATH_MAX];
	json_t *file;
	int r = 0;

	if (file_path(path, sizeof(path), false, NULL))
		return 0;
	file = file_load(path, err);
	if (!file)
		return -EPERM;
	if (!out->url[0] && *json_text(file, "current"))
		r = remote_url_check(json_text(file, "current"), out->url, err);
	if (!r && out->url[0]) {
		const json_t *server = json_object_get(json_object_get(file, "servers"), out->url);

		text_copy(out->key, sizeof(out->key), json_text(server, "key"));
	}
	json_decref(file);
	return r;
}

int remote_settings_load(
	const struct remote_options *options, struct remote_settings *out, struct error *err)
{
	const char *url = options->url ? options->url : variable("API_URL");
	const char *key = variable("API_KEY"), *auth = variable("AUTH_URL");
	const char *ca = options->ca_file ? options->ca_file : variable("CA_FILE");
	int r = 0;

	*out = (struct remote_settings){0};
	if (url)
		r = remote_url_check(url, out->url, err);
	if (r && !options->url)
		error_prefix(err, "$SEALMARK_API_URL");
	if (!r && key)
		r = check_key(key, out->key, err);
	/* a key of the environment belongs to the server of the environment, or of the command
	 * line: never to whichever one was logged in to last */
	if (!r && !key)
		r = from_login(out, err);
	if (!r && auth)
		r = remote_url_check(auth, out->auth, err);
	else if (!r)
		text_copy(out->auth, sizeof(out->auth), out->url);
	if (!r && ca && text_copy(out->ca_file, sizeof(out->ca_file), ca))
		r = error_set(err, -EINVAL, "the path of the certificates is too long");
	return r;
}

bool remote_is_set(const struct remote_options *options, const struct remote_settings *settings)
{
	return options->url || (settings->url[0] && settings->key[0]);
}

bool remote_is_elsewhere(struct error *err)
{
	const struct remote_options none = {0};
	struct remote_settings settings;
	const char *host;

	if (remote_settings_load(&none, &settings, NULL))
		return false;
	explicit_bzero(settings.key, sizeof(settings.key));
	host = strstr(settings.url, "://");
	if (!host || is_loopback(host + 3))
		return false;
	cli_usage(err,
		"keys of %.200s are made and revoked by a person there, in the browser, or asked "
		"for with `sealmark login`; --store FILE works on a store of this host",
		settings.url);
	return true;
}
