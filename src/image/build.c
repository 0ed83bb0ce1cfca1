/* SPDX-License-Identifier: Apache-2.0 - one build: the machine, its log, the image that comes out.
 */
#include "image/build.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER       "/.build"
/* Of the machine's memory, what is not the new root's disk: programs, and the uploads' disk. */
#define MEMORY_WORK  512u
#define UPLOADS_MIB  256u
#define FILES_MOST   262144u
#define LEASE_EXTRA  (INT64_C(120) * 1000)
#define PROCESSES    900
#define PACKAGES_MAX (4u << 20)
#define CONTEXT_MOST (UINT64_C(256) << 20)
#define LINE_MOST    4096u
#define INTERNET     "{\"internet\": true}"
#define CERTIFICATES "/etc/ssl/certs/ca-certificates.crt"

/* where an EROFS says what it is */
#define MAGIC_OFFSET 1024u
#define MAGIC        "\xe2\xe1\xf5\xe0"

struct work {
	struct image_build *build;
	const struct image_plan *plan;
	const struct image *base;
	const struct image_machine *machine;
	struct sandbox *sandbox;
	struct buffer lines[2]; /* of stdout, stderr: not ended yet */
	char last[200];         /* of what stderr said */
	/* the result */
	char stage[PATH_MAX];
	int fd;
	struct hash *hash;
	uint64_t bytes, bytes_most;
	char digest[HASH_HEX_SIZE];
	char magic[4];
};

static uint32_t memory_mib(const struct work *w)
{
	uint32_t asked = w->machine->memory_mib;

	return !asked                             ? IMAGE_BUILD_MEMORY_MIB
	       : asked < IMAGE_BUILD_MEMORY_LEAST ? IMAGE_BUILD_MEMORY_LEAST
						  : asked;
}

/* --- what goes in --- */

static int put(struct work *w, const char *name, const void *bytes, size_t count, struct error *err)
{
	char path[128];

	text_format(path, sizeof(path), FOLDER "/%s", name);
	return sandbox_write(w->sandbox, path, bytes, count, 0600, 0, err);
}

static int add_export(struct buffer *out, const char *pair)
{
	size_t name = strcspn(pair, "=");
	int r = buffer_add_text(out, "export ");

	r = r ? r : buffer_add(out, pair, name);
	r = r ? r : buffer_add(out, "=", 1);
	r = r ? r : image_quote(out, pair[name] ? pair + name + 1 : "");
	return r ? r : buffer_add(out, "\n", 1);
}

/* The certificates of this host, for the commands of the build alone: where a proxy of the site
 * stands between, they are what makes it trusted. */
static int put_certificates(struct work *w, struct buffer *env, struct error *err)
{
	static const char *const names[] = {"SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
		"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"};
	cleanup_close int fd = open(CERTIFICATES, O_RDONLY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !r; i++)
		r = buffer_printf(env, "export %s=" FOLDER "/certificates.pem\n", names[i]);
	return r ? error_sys(err, r, "build")
		 : sandbox_write_fd(w->sandbox, FOLDER "/certificates.pem", fd, 0644, 0, err);
}

/* The base's variables, with root's programs on the path. */
static int put_env(struct work *w, struct error *err)
{
	struct buffer env = {0};
	int r = put_certificates(w, &env, err);

	for (size_t i = 0; i < w->base->env_count && !r; i++)
		r = add_export(&env, w->base->env[i]);
	if (!r)
		r = buffer_add_text(
			&env, "export PATH=\"/usr/local/sbin:/usr/sbin:/sbin:$PATH\"\n");
	if (!r)
		r = put(w, "env", buffer_text(&env), buffer_length(&env), err);
	buffer_fini(&env);
	return r;
}

static int put_steps(struct work *w, struct error *err)
{
	char name[64], title[256];
	int r = 0;

	for (size_t i = 0; i < w->plan->step_count && !r; i++) {
		const struct image_step *step = &w->plan->steps[i];
		struct buffer script = {0};

		text_format(name, sizeof(name), "steps/%03zu", i + 1);
		text_format(title, sizeof(title), "[%zu/%zu] %s\n", i + 1, w->plan->step_count,
			step->title);
		r = image_step_script(w->plan, step, &script);
		r = r ? error_sys(err, r, "build")
		      : put(w, name, buffer_text(&script), buffer_length(&script), err);
		buffer_fini(&script);
		text_format(name, sizeof(name), "steps/%03zu.title", i + 1);
		r = r ? r : put(w, name, title, strlen(title), err);
	}
	return r;
}

static int put_files(struct work *w, struct error *err)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < w->plan->file_count && !r; i++) {
		const struct image_file *f = &w->plan->files[i];

		if (f->name ? text_format(path, sizeof(path), IMAGE_CONTEXT_FOLDER "/%s", f->name)
			    : text_format(path, sizeof(path), FOLDER "/files/%zu", i))
			return error_set(err, -ENAMETOOLONG, "a file's path is too long");
		r = sandbox_write(w->sandbox, path, f->bytes, f->count, f->mode, 0, err);
	}
	return r;
}

/* A pipe would need a second thread; the context is at most 100 MiB, so a file without a name. */
static int put_context(struct work *w, struct error *err)
{
	const struct image_machine *m = w->machine;
	const void *bytes;
	size_t count;
	int r = 0;

	if (m->folder_fd >= 0)
		return sandbox_put_tree(
			w->sandbox, IMAGE_CONTEXT_FOLDER, m->folder_fd, 0, 0, CONTEXT_MOST, err);
	if (!m->next)
		return 0;
	cleanup_close int fd = open(w->stage, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_sys(err, errno, "%s", w->stage);
	while ((r = m->next(m->context, &bytes, &count)) > 0) {
		r = path_write_fd(fd, bytes, count);
		if (r)
			return error_sys(err, r, "%s", w->stage);
	}
	if (r)
		return error_set(err, r, "the context could not be read");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return error_sys(err, errno, "%s", w->stage);
	return sandbox_write_fd(w->sandbox, FOLDER "/context.tar", fd, 0600, 0, err);
}

static int put_all(struct work *w, struct error *err)
{
	int r = sandbox_mkdir(w->sandbox, FOLDER "/steps", 0755, 0, err);

	r = r ? r : sandbox_mkdir(w->sandbox, FOLDER "/context", 0755, 0, err);
	r = r ? r : put(w, "driver", image_driver, strlen(image_driver), err);
	r = r ? r : put_env(w, err);
	r = r ? r : put_steps(w, err);
	r = r ? r : put_files(w, err);
	return r ? r : put_context(w, err);
}

/* --- what comes out --- */

static void say_lines(struct work *w, unsigned stream, const void *bytes, size_t count, bool end)
{
	struct buffer *b = &w->lines[stream];
	const char *name = stream ? "stderr" : "stdout";
	char line[LINE_MOST + 1];

	if (count && buffer_add(b, bytes, count))
		buffer_clear(b);
	while (buffer_length(b)) {
		const char *at = (const char *)buffer_bytes(b);
		size_t have = buffer_length(b), n = have < LINE_MOST ? have : LINE_MOST;
		const char *nl = memchr(at, '\n', n);

		if (!nl && !end && have < LINE_MOST)
			break;
		n = nl ? (size_t)(nl - at) : n;
		memcpy(line, at, n);
		line[n] = 0;
		buffer_consume(b, n + (nl != NULL));
		/* a NUL or a carriage return (a progress bar) ends what is shown */
		line[strcspn(line, "\r")] = 0;
		if (stream && line[0])
			text_copy(w->last, sizeof(w->last), line);
		image_build_say(w->build, w->machine, name, line);
	}
}

static int take_image(struct work *w, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < sizeof(w->magic); i++) {
		uint64_t at = MAGIC_OFFSET + i;

		if (at >= w->bytes && at < w->bytes + count)
			w->magic[i] = (char)bytes[at - w->bytes];
	}
	w->bytes += count;
	if (w->bytes > w->bytes_most)
		return -EFBIG;
	hash_add(w->hash, bytes, count);
	return path_write_fd(w->fd, bytes, count);
}

static int take_output(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	struct work *w = context;

	if (channel == WIRE_REPORT)
		return take_image(w, bytes, count);
	say_lines(w, channel == WIRE_STDERR, bytes, count, false);
	return 0;
}

/* What the driver's end means. */
static int judge(struct work *w, int r, const struct exec_result *result, struct error *err)
{
	if (r == -EFBIG)
		return error_set(err, -EINVAL,
			"the image is larger than the %llu MiB that are left for images",
			(unsigned long long)(w->bytes_most >> 20));
	if (r == -EINTR)
		return error_set(err, -ECANCELED, "the build was cancelled");
	if (r)
		return r;
	if (result->reason == WIRE_END_WALL_LIMIT)
		return error_set(err, -EINVAL, "the build took too long");
	if (result->reason == WIRE_END_MEMORY_LIMIT || result->flags & WIRE_EXIT_OOM)
		return error_set(
			err, -EINVAL, "the build needs more memory than its %u MiB", memory_mib(w));
	if (result->reason != WIRE_END_EXITED || result->status)
		return error_set(err, -EINVAL, "%s",
			w->last[0] ? w->last : "the build ended without a word");
	if (w->bytes <= MAGIC_OFFSET + sizeof(w->magic) ||
		memcmp(w->magic, MAGIC, sizeof(w->magic)) != 0)
		return error_set(err, -EINVAL, "the build gave no image");
	return 0;
}

static int run_driver(struct work *w, struct error *err)
{
	static const char *const argv[] = {"/bin/bash", FOLDER "/driver", NULL};
	char disk[48];
	const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"TERM=dumb", disk, NULL};
	struct exec_spec spec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	int64_t timeout = w->machine->timeout_ms;
	int r;

	text_format(disk, sizeof(disk), "BUILD_DISK_MIB=%u", memory_mib(w) - MEMORY_WORK);
	spec.argv = argv;
	spec.env = env;
	spec.cwd = "/";
	spec.uid = spec.gid = 0;
	spec.flags = WIRE_EXEC_PRIVILEGED | WIRE_EXEC_NEW_PRIVS;
	spec.wall_ms = timeout > 0 ? timeout : IMAGE_BUILD_TIMEOUT_MS;
	spec.output_bytes = INT64_MAX;
	spec.processes = PROCESSES;
	spec.report = true;
	spec.on_output = take_output;
	spec.context = w;
	spec.cancel_fd = w->machine->cancel_fd;
	r = sandbox_exec(w->sandbox, &spec, &result, err);
	for (unsigned i = 0; i < 2; i++)
		say_lines(w, i, NULL, 0, true);
	r = judge(w, r, &result, err);
	exec_result_fini(&result);
	return r;
}

/* --- the machine --- */

static int start(struct work *w, struct error *err)
{
	int64_t timeout = w->machine->timeout_ms;
	const struct sandbox_spec spec = {
		.home = image_build_home(w->build),
		.engine = w->machine->engine,
		.image = w->base->rootfs,
		.script = w->machine->script,
		.require_isolation = w->machine->isolation,
		.memory_mib = memory_mib(w),
		.disk_mib = UPLOADS_MIB,
		.files_most = FILES_MOST,
		.lease_ms = (timeout > 0 ? timeout : IMAGE_BUILD_TIMEOUT_MS) + LEASE_EXTRA,
		.cpu = -1,
		.network = w->machine->network ? w->machine->network : INTERNET,
	};

	return sandbox_create(&spec, &w->sandbox, err);
}

static int open_result(struct work *w, struct error *err)
{
	char path[PATH_MAX];
	int r = image_stage(image_build_home(w->build), image_build_id(w->build), w->stage, err);

	r = r ? r : path_join(path, sizeof(path), w->stage, "rootfs.erofs", err);
	if (r)
		return r;
	w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	w->hash = hash_new();
	if (w->fd < 0 || fchmod(w->fd, 0644))
		return error_sys(err, errno, "%s", path);
	w->bytes_most = (uint64_t)memory_mib(w) << 20;
	if (w->machine->bytes_most && w->machine->bytes_most < w->bytes_most)
		w->bytes_most = w->machine->bytes_most;
	return w->hash ? 0 : error_sys(err, -ENOMEM, "build");
}

/* --- the version --- */

/* "name\tversion" a line; what is not so is left out, since a guest wrote it. */
static json_t *parse_packages(struct buffer *text)
{
	json_t *packages = json_object();
	char *line = buffer_text(text), *next, *tab;

	for (; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		tab = strchr(line, '\t');
		if (!tab || tab == line || tab - line > 200 || strlen(tab) > 200)
			continue;
		*tab++ = 0;
		json_object_set_new(packages, line, json_string(tab));
	}
	return packages;
}

static json_t *packages_of(struct work *w)
{
	struct buffer text = {0};
	json_t *packages = NULL;

	if (w->sandbox &&
		sandbox_read(w->sandbox, FOLDER "/packages", PACKAGES_MAX, 0, &text, NULL) == 0 &&
		text_is_utf8(buffer_bytes(&text), buffer_length(&text)) && buffer_length(&text))
		packages = parse_packages(&text);
	buffer_fini(&text);
	if (packages)
		return packages;
	packages = json_object();
	for (size_t i = 0; i < w->base->package_count; i++)
		json_object_set_new(packages, w->base->packages[i].name,
			json_string(w->base->packages[i].version));
	return packages;
}

static json_t *env_of(const struct work *w)
{
	json_t *env = json_object();

	for (size_t i = 0; i < w->base->env_count; i++) {
		const char *pair = w->base->env[i];
		cleanup_free char *name = strndup(pair, strcspn(pair, "="));

		if (name)
			json_object_set_new(env, name, json_string(pair + strlen(name) + 1));
	}
	for (size_t i = 0; i < w->plan->variable_count; i++) {
		const struct image_variable *v = &w->plan->variables[i];

		if (!v->argument)
			json_object_set_new(env, v->name, json_string(v->value));
	}
	return env;
}

static json_t *manifest_of(struct work *w, const json_t *about)
{
	char created[CLOCK_STAMP_SIZE];
	const char *name = json_string_value(json_object_get(about, "name"));
	const char *digest = json_string_value(json_object_get(about, "digest"));
	const char *owner = json_string_value(json_object_get(about, "owner"));

	clock_stamp(created);
	return json_pack("{ss ss ss* ss ss ss ss sI ss ss ss sI sI ss so so}", "name", name, "id",
		image_build_id(w->build), "owner", owner && owner[0] ? owner : NULL, "description",
		"", "base", w->plan->base, "recipe_digest", digest, "sha256", w->digest,
		"size_bytes", (json_int_t)w->bytes, "created", created, "suite", w->base->suite,
		"user", w->base->user, "uid", (json_int_t)w->base->uid, "gid",
		(json_int_t)w->base->gid, "cwd", w->plan->workdir ? w->plan->workdir : w->base->cwd,
		"env", env_of(w), "packages", packages_of(w));
}

/* The staged file and its manifest become the next version; the record says so. */
static int place(struct work *w, const json_t *about, json_t *manifest, struct error *err)
{
	const json_t *list = json_object_get(about, "tags");
	const char **tags = calloc(json_array_size(list) + 1, sizeof(*tags));
	char version[IMAGE_VERSION_MAX + 1];
	int r = tags ? 0 : error_sys(err, -ENOMEM, "build");
	json_t *tag;
	size_t i;

	json_array_foreach (list, i, tag) {
		if (tags)
			tags[i] = json_string_value(tag);
	}
	if (!r)
		r = image_install(image_build_home(w->build), image_build_id(w->build), manifest,
			tags, version, err);
	free(tags);
	return r ? r
		 : image_build_set(
			   w->build, IMAGE_BUILD_READY, json_pack("{ss}", "version", version), err);
}

static int install(struct work *w, struct error *err)
{
	json_t *about = image_build_about(w->build);
	json_t *manifest = about ? manifest_of(w, about) : NULL;
	int r = manifest ? 0 : error_sys(err, -ENOMEM, "build");

	if (!r && fsync(w->fd))
		r = error_sys(err, errno, "%s", w->stage);
	r = r ? r : place(w, about, manifest, err);
	json_decref(manifest);
	json_decref(about);
	return r;
}

static int build(struct work *w, struct error *err)
{
	int r = open_result(w, err);

	r = r ? r : start(w, err);
	r = r ? r : put_all(w, err);
	r = r ? r : run_driver(w, err);
	if (!r)
		hash_end(w->hash, w->digest);
	return r ? r : install(w, err);
}

/* Another name for the same bytes: a second link to the file, and a manifest of its own. */
static int reuse(struct image_build *b, const struct image *same, json_t *about, struct error *err)
{
	const char *home = image_build_home(b);
	struct image_plan empty = {.base = (char *)(uintptr_t) "default"};
	struct work w = {.build = b, .plan = &empty, .base = same, .fd = -1};
	char path[PATH_MAX];
	json_t *manifest;
	int r = image_stage(home, image_build_id(b), w.stage, err);

	r = r ? r : path_join(path, sizeof(path), w.stage, "rootfs.erofs", err);
	if (!r && link(same->rootfs, path))
		r = error_sys(err, errno, "%s", path);
	if (r)
		return r;
	w.bytes = same->size_bytes;
	text_copy(w.digest, sizeof(w.digest), same->digest);
	manifest = manifest_of(&w, about);
	r = manifest ? place(&w, about, manifest, err) : error_sys(err, -ENOMEM, "build");
	json_decref(manifest);
	return r;
}

int image_build_reuse(struct image_build *b, const struct image *same, struct error *err)
{
	json_t *about = image_build_about(b);
	struct error own = {0};
	int r;

	err = err ? err : &own;
	r = about ? reuse(b, same, about, err) : error_sys(err, -ENOMEM, "build");
	json_decref(about);
	image_stage_remove(image_build_home(b), image_build_id(b));
	if (r)
		image_build_fail(b, error_message(err), NULL);
	return r;
}

int image_build_run(struct image_build *b, const struct image_plan *plan, const struct image *base,
	const struct image_machine *machine, struct error *err)
{
	struct work w = {.build = b, .plan = plan, .base = base, .machine = machine, .fd = -1};
	struct error own = {0};
	int r;

	err = err ? err : &own;
	r = image_build_set(b, IMAGE_BUILD_BUILDING, NULL, err);
	r = r ? r : build(&w, err);
	sandbox_free(w.sandbox);
	close_fd(&w.fd);
	hash_free(w.hash);
	for (unsigned i = 0; i < 2; i++)
		buffer_fini(&w.lines[i]);
	image_stage_remove(image_build_home(b), image_build_id(b));
	if (r)
		image_build_say(b, machine, "system", error_message(err));
	if (r && image_build_fail(b, error_message(err), NULL))
		image_build_say(b, machine, "system", "the state could not be written");
	return r;
}
