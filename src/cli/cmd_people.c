/* SPDX-License-Identifier: Apache-2.0 - sealmark owner reset, sealmark audit. */
#include "api/api.h"
#include "base/buffer.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/store.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct people_options {
	const char *store, *url, *action;
	uint32_t limit;
	bool json;
};

void cli_print_safe(const char *text)
{
	struct buffer safe = {0};

	if (!text_add_safe(&safe, text, strlen(text), false) && buffer_text(&safe))
		fputs(buffer_text(&safe), stdout);
	buffer_fini(&safe);
}

/* --- owner reset --- */

/* Where a browser on this host finds the server of the operator's file. */
static int url_of_file(char *out, size_t size, struct error *err)
{
	struct api_options api = API_OPTIONS_INIT;
	struct api_config *config = NULL;
	const char *scheme, *port;
	int r = cli_serve_file(NULL, &api, &config, err);

	if (r)
		return r;
	scheme = api.tls_cert ? "https" : "http";
	api.listen = api.listen ? api.listen : "127.0.0.1:8080";
	port = strrchr(api.listen, ':');
	if (api.public_url)
		r = text_copy(out, size, api.public_url);
	else if (text_starts(api.listen, "unix:"))
		r = error_set(err, -EINVAL,
			"the server listens on a socket: say with --url how people reach it");
	else if (text_starts(api.listen, "0.0.0.0:") || text_starts(api.listen, "[::]:"))
		r = text_format(out, size, "%s://localhost%s", scheme, port);
	else
		r = text_format(out, size, "%s://%s", scheme, api.listen);
	api_config_free(config);
	return r;
}

static int run_reset(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct people_options *o = options;
	struct store *store;
	char link[1024], url[512];
	int r = o->url ? text_copy(url, sizeof(url), o->url) : url_of_file(url, sizeof(url), err);

	if (r)
		return r == -EINVAL ? CLI_USAGE : CLI_OURS;
	r = cli_open_store(o->store, &store, err);
	if (r)
		return CLI_OURS;
	r = api_owner_link(store, url, link, sizeof(link), err);
	store_close(store);
	if (!r && o->json)
		return remote_print_json(json_pack("{ss}", "link", link), err);
	if (!r)
		puts(link);
	return r ? CLI_OURS : CLI_OK;
}

/* --- audit --- */

static const struct people_options audit_defaults = {.limit = 50};

static int add_entry(void *context, const struct store_audit *audit)
{
	json_t *detail = json_loads(audit->detail, 0, NULL);
	char at[32];

	cli_write_time(at, sizeof(at), audit->time_ms);
	return json_array_append_new(
		context, json_pack("{sI ss ss ss ss so ss ss}", "seq", (json_int_t)audit->seq,
				 "time", at, "who", audit->who, "action", audit->action, "target",
				 audit->target, "detail", detail ? detail : json_object(),
				 "address", audit->address, "requestId", audit->request));
}

static const char *text_of(const json_t *entry, const char *name)
{
	return json_string_value(json_object_get(entry, name));
}

static void print_entries(const json_t *list)
{
	const json_t *entry;
	size_t i;

	printf("%-20s  %-22s  %-16s  %-36s  %s\n", "TIME", "ACTION", "FROM", "ABOUT", "WHO");
	json_array_foreach (list, i, entry) {
		const char *from = text_of(entry, "address");

		printf("%-20s  %-22s  %-16s  %-36s  %s\n", text_of(entry, "time"),
			text_of(entry, "action"), from[0] ? from : "-", text_of(entry, "target"),
			text_of(entry, "who"));
	}
}

static int run_audit(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct people_options *o = options;
	json_t *list = json_array();
	uint64_t entries = 0;
	struct store *store;
	int r = cli_open_store(o->store, &store, err);

	if (!r) {
		r = store_audit_verify(store, &entries, err);
		if (!r)
			r = store_audit_each(store, o->action, 0, o->limit, add_entry, list, err);
		store_close(store);
	}
	if (!r && o->json) {
		json_dumpf(list, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (!r) {
		print_entries(list);
		printf("%llu entries, each bound to the one before it\n",
			(unsigned long long)entries);
	}
	json_decref(list);
	return r == -EBADMSG ? CLI_ATTENTION : r ? CLI_OURS : CLI_OK;
}

#define STORE_OPTION                                                                               \
	CLI_OPTION("store", 0, "FILE", "the store (default $SEALMARK_HOME/sealmark.db)",           \
		"--store /srv/sealmark.db", cli_text, offsetof(struct people_options, store))

static const struct cli_option reset_options[] = {
	CLI_OPTION("url", 0, "URL", "the server's address (default: as sealmark.yaml has it)",
		"--url https://sealmark.example.org", cli_text,
		offsetof(struct people_options, url)),
	STORE_OPTION,
	CLI_OPTION("json", 0, NULL, "print it as JSON", "--json", cli_flag,
		offsetof(struct people_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_owner_reset = {
	.name = "owner reset",
	.summary = "Print a link to set the owner's password",
	.text = "Whoever opens the link, once and within 24 hours, sets the password of the\n"
		"server's owner: the first one, or another after it was lost. Until then the\n"
		"password that is set holds; with it all sessions end. Links before it end at "
		"once.",
	.examples = "sealmark owner reset\n"
		    "sealmark owner reset --url https://sealmark.example.org\n",
	.options = reset_options,
	.size = sizeof(struct people_options),
	.run = run_reset,
};

static const struct cli_option audit_options[] = {
	CLI_OPTION("action", 0, "ACTION", "only this action, or a group that ends in a dot",
		"--action key.", cli_text, offsetof(struct people_options, action)),
	CLI_OPTION("limit", 'n', "N", "the newest N entries (default 50)", "-n 100", cli_u32,
		offsetof(struct people_options, limit), .least = 1, .most = 1000000),
	CLI_OPTION("json", 0, NULL, "print the entries as JSON", "--json", cli_flag,
		offsetof(struct people_options, json)),
	STORE_OPTION,
	CLI_OPTIONS_END,
};

const struct cli_command cli_audit = {
	.name = "audit",
	.summary = "Say who decided what: sign-ins, keys, limits, approvals",
	.text = "The newest entries first. Entries are only ever added, and each holds the hash\n"
		"of the one before it; all of them are checked first, and the first that does\n"
		"not fit is named.",
	.examples = "sealmark audit\n"
		    "sealmark audit --action session. --json\n",
	.options = audit_options,
	.defaults = &audit_defaults,
	.size = sizeof(struct people_options),
	.run = run_audit,
};
