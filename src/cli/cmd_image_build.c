/* SPDX-License-Identifier: Apache-2.0 - sealmark image build: a recipe or Dockerfile, built here.
 */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/remote_image.h"
#include "base/hash.h"
#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct build_options {
	struct remote_where where;
	const char *file, *context, *engine, *script, *isolation;
	struct cli_texts tags, arguments;
	uint32_t memory_mib;
	int64_t timeout_ms;
	bool again, quiet;
};

static const struct build_options defaults = {.engine = "auto"};

static void print_line(void *context, const char *stream, const char *text)
{
	const struct build_options *o = context;

	if (!o->quiet)
		fprintf(stderr, "%s\n", text);
}

/* --arg NAME=VALUE */
static json_t *arguments(const struct build_options *o, struct error *err)
{
	json_t *out = json_object();

	for (size_t i = 0; i < o->arguments.count; i++) {
		const char *item = o->arguments.items[i], *equals = strchr(item, '=');
		cleanup_free char *name = equals ? strndup(item, (size_t)(equals - item)) : NULL;

		if (!name || !image_is_variable(name)) {
			cli_usage(err, "--arg: \"%.100s\": must be NAME=VALUE, as --arg VERSION=3",
				item);
			json_decref(out);
			return NULL;
		}
		json_object_set_new(out, name, json_string(equals + 1));
	}
	return out;
}

static json_t *tags_of(const struct build_options *o, struct error *err)
{
	json_t *out = json_array();

	json_array_append_new(out, json_string("latest"));
	for (size_t i = 0; i < o->tags.count; i++) {
		if (!image_is_tag(o->tags.items[i])) {
			cli_usage(err,
				"--tag: \"%.80s\": must be of lower case letters, digits, dots, "
				"dashes, and begin with a letter",
				o->tags.items[i]);
			json_decref(out);
			return NULL;
		}
		json_array_append_new(out, json_string(o->tags.items[i]));
	}
	return out;
}

static int say(const struct build_options *o, const json_t *about, struct error *err)
{
	const char *name = json_string_value(json_object_get(about, "name"));
	const char *version = json_string_value(json_object_get(about, "version"));

	if (!o->where.remote.json)
		printf("%s@%s\n", name, version);
	else if (json_dumpf(about, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII))
		return cli_ours(err, "out of memory");
	else
		putchar('\n');
	return CLI_OK;
}

/* what the plan complains of, as one message */
static int complain(const json_t *issues, const char *path, struct error *err)
{
	const json_t *first = json_array_get(issues, 0);
	const char *where = json_string_value(json_object_get(first, "path"));
	const char *what = json_string_value(json_object_get(first, "message"));
	size_t more = json_array_size(issues) - 1;

	if (!first)
		return CLI_USAGE;
	if (!where || strcmp(where, "dockerfile") == 0)
		return cli_usage(err, "%s: %s", path, what);
	if (!more)
		return cli_usage(err, "%s: %s: %s", path, where, what);
	return cli_usage(err, "%s: %s: %s (and %zu more)", path, where, what, more);
}

struct building {
	const struct build_options *options;
	const char *name;
	struct image_plan *plan;
	struct image *base;
	char digest[HASH_HEX_SIZE];
	int folder_fd, cancel_fd;
};

static int run_build(struct building *b, struct image_build *build, struct error *err)
{
	const struct build_options *o = b->options;
	const struct image_machine machine = {
		.engine = o->engine,
		.script = o->script,
		.isolation = o->isolation,
		.memory_mib = o->memory_mib,
		.timeout_ms = o->timeout_ms,
		.cancel_fd = b->cancel_fd,
		.folder_fd = b->folder_fd,
		.on_line = print_line,
		.context = (void *)(uintptr_t)o,
	};
	struct image *same = NULL;
	int r;

	if (!o->again && b->folder_fd < 0 &&
		image_source_same(NULL, b->name, b->digest, &same, NULL) == 0)
		r = image_build_reuse(build, same, err);
	else
		r = image_build_run(build, b->plan, b->base, &machine, err);
	image_free(same);
	return r;
}

/* An image of that name, built so: there is nothing to do. */
static bool is_there(const struct building *b, struct image **same)
{
	if (b->options->again || b->folder_fd >= 0 ||
		image_source_same(NULL, b->name, b->digest, same, NULL))
		return false;
	if (strcmp((*same)->name, b->name) == 0)
		return true;
	image_free(*same);
	*same = NULL;
	return false;
}

static int say_same(
	const struct building *b, const struct image *same, json_t *tags, struct error *err)
{
	json_t *tag, *about;
	size_t i;
	int status;

	json_array_foreach (tags, i, tag) {
		if (image_tag(NULL, same->name, same->version, json_string_value(tag), err))
			return CLI_OURS;
	}
	about = json_pack("{ss ss ss ss ss}", "id", same->id, "name", same->name, "version",
		same->version, "state", "ready", "digest", same->recipe_digest);
	status = say(b->options, about, err);
	json_decref(about);
	return status;
}

static int build(struct building *b, json_t *tags, struct error *err)
{
	struct image_build *build;
	struct image *same = NULL;
	json_t *about;
	int status, r;

	if (is_there(b, &same)) {
		status = say_same(b, same, tags, err);
		image_free(same);
		return status;
	}
	about = json_pack("{ss ss ss sO}", "name", b->name, "digest", b->digest, "base",
		b->plan->base, "tags", tags);
	r = image_build_new(NULL, about, &build, err);
	json_decref(about);
	if (r)
		return CLI_OURS;
	r = run_build(b, build, err);
	about = image_build_about(build);
	status = r == -EINVAL      ? CLI_ATTENTION
		 : r == -ECANCELED ? 128 + cli_cancel_signal(b->cancel_fd)
		 : r               ? CLI_OURS
				   : say(b->options, about, err);
	if (r == -EINVAL) {
		const struct error was = *err;

		error_set(err, r, "image %s: %s (sealmark image logs %s)", b->name,
			error_message(&was), b->name);
	} else if (r) {
		error_prefix(err, "image %s", b->name);
	}
	json_decref(about);
	image_build_free(build);
	return status;
}

static int plan(struct building *b, const json_t *body, const json_t *args, struct error *err)
{
	const struct image_source source = {.recipe = json_object_get(body, "recipe"),
		.dockerfile = json_object_get(body, "dockerfile"),
		.arguments = args};
	json_t *issues = json_array();
	int r = image_source_plan(NULL, &source, &b->plan, &b->base, issues, err);
	int status = r == -EINVAL   ? complain(issues, b->options->file, err)
		     : r == -ENOENT ? CLI_USAGE
		     : r            ? CLI_OURS
				    : CLI_OK;

	json_decref(issues);
	if (!status)
		image_source_digest(&source, b->base, NULL, b->digest);
	return status;
}

/* Planned and built on this host. */
static int build_here(
	struct building *b, const json_t *body, const json_t *args, json_t *tags, struct error *err)
{
	int status = plan(b, body, args, err);

	if (!status && image_builds_sweep(NULL, 0, err))
		status = CLI_OURS;
	if (!status)
		status = build(b, tags, err);
	image_plan_free(b->plan);
	image_free(b->base);
	return status;
}

static int build_there(struct remote *r, const struct building *b, const json_t *body,
	const json_t *args, const json_t *tags, struct error *err)
{
	const struct build_options *o = b->options;
	const struct remote_build there = {
		.name = b->name,
		.source = body,
		.arguments = args,
		.tags = tags,
		.folder_fd = b->folder_fd,
		.memory_mib = o->memory_mib,
		.timeout_ms = o->timeout_ms,
		.again = o->again,
		.quiet = o->quiet,
		.json = o->where.remote.json,
	};

	if (!o->isolation)
		return remote_image_build(r, &there, err);
	remote_free(r);
	return cli_usage(err, "--require-isolation: only on this host (--local)");
}

static int run(const void *options, const char *const *operands, size_t count, struct error *err)
{
	struct building b = {
		.options = options, .name = operands[0], .folder_fd = -1, .cancel_fd = -1};
	const struct build_options *o = options;
	json_t *body = NULL, *args = NULL, *tags = NULL;
	struct remote *remote;
	int status;

	if (!image_is_name(b.name))
		return cli_usage(err,
			"\"%.80s\": the name of an image is of lower case letters, digits, dots, "
			"dashes",
			b.name);
	if (!o->file)
		return cli_usage(err, "-f FILE is missing: a recipe (.yaml) or a Dockerfile");
	if (o->context) {
		b.folder_fd = open(o->context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (b.folder_fd < 0)
			return cli_usage(err, "--context %s: %s", o->context, strerror(errno));
	}
	status = remote_open_where(&o->where, &remote, err);
	if (!status && (!(args = arguments(o, err)) || !(tags = tags_of(o, err)) ||
			       image_source_file(o->file, &body, err)))
		status = CLI_USAGE;
	if (!status && remote) {
		status = build_there(remote, &b, body, args, tags, err);
		remote = NULL;
	} else if (!status) {
		b.cancel_fd = cli_cancel_fd();
		status = b.cancel_fd < 0 ? cli_ours(err, "%s", strerror(-b.cancel_fd))
					 : build_here(&b, body, args, tags, err);
	}
	remote_free(remote);
	json_decref(body);
	json_decref(args);
	json_decref(tags);
	close_fd(&b.folder_fd);
	close_fd(&b.cancel_fd);
	return status;
}

static const struct cli_option options[] = {
	CLI_OPTION("file", 'f', "FILE",
		"a recipe (its name ends with .yaml, .yml or .json) or a Dockerfile",
		"-f recipe.yaml", cli_text, offsetof(struct build_options, file)),
	CLI_OPTION("context", 0, "DIR", "the folder that COPY of a Dockerfile takes from",
		"--context .", cli_text, offsetof(struct build_options, context)),
	CLI_OPTION("tag", 't', "TAG",
		"point TAG at the new version, beside latest; may be given several times",
		"-t stable", cli_texts, offsetof(struct build_options, tags)),
	CLI_OPTION("arg", 0, "NAME=VALUE",
		"the value of an ARG of a Dockerfile; may be given several times",
		"--arg VERSION=3", cli_texts, offsetof(struct build_options, arguments)),
	CLI_OPTION("memory", 'm', "SIZE",
		"memory of the machine that builds, which holds what is installed and the result "
		"(default 4G)",
		"--memory 8G", cli_mib, offsetof(struct build_options, memory_mib), .least = 1024,
		.most = 65536),
	CLI_OPTION("timeout", 0, "TIME", "give up after TIME (default 1h)", "--timeout 20m",
		cli_duration_ms, offsetof(struct build_options, timeout_ms), .least = 1000,
		.most = 86400000),
	CLI_OPTION("again", 0, NULL, "build even what was built from the same recipe and base",
		"--again", cli_flag, offsetof(struct build_options, again)),
	CLI_OPTION("quiet", 'q', NULL, "do not print the log", "--quiet", cli_flag,
		offsetof(struct build_options, quiet)),
	REMOTE_WHERE_OPTIONS(struct build_options),
	CLI_OPTION("require-isolation", 0, "LEVEL",
		"start no machine that is weaker: process, kernel or hardware (default process)",
		"--require-isolation kernel", cli_text, offsetof(struct build_options, isolation)),
	CLI_OPTION("engine", 0, "ENGINE", "auto, uml or fake", "--engine auto", cli_text,
		offsetof(struct build_options, engine), .hidden = true),
	CLI_OPTION("script", 0, "FILE", "what engine fake does", "--script file", cli_text,
		offsetof(struct build_options, script), .hidden = true),
	CLI_OPTIONS_END,
};

const struct cli_command cli_image_build = {
	.name = "image build",
	.summary = "Build the next version of an image from a recipe or a Dockerfile",
	.operands = "NAME",
	.text = "A recipe is a file of base, apt, pip, npm, files, commands, env and workdir; "
		"what\n"
		"is not said is left as the base has it. It is done in a machine of its own, as "
		"root,\n"
		"with the network, and packed; only what succeeds becomes a version. The log goes "
		"to\n"
		"standard error, NAME@VERSION to standard output.\n"
		"\n"
		"A Dockerfile may say FROM (an image that is here), RUN, COPY, ENV, WORKDIR, USER "
		"and\n"
		"ARG. What was built before from the same source and base is there at once.\n"
		"\n"
		"Exit status 1: a step failed.",
	.examples = "sealmark image build cs101-grader -f recipe.yaml\n"
		    "sealmark image build cs101-grader -f Dockerfile --context . -t stable\n",
	.options = options,
	.defaults = &defaults,
	.size = sizeof(struct build_options),
	.least = 1,
	.most = 1,
	.run = run,
};
