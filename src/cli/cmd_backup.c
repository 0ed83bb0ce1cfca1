/* SPDX-License-Identifier: Apache-2.0 - sealmark backup: a copy of the platform's store. */
#include "base/path.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/store.h"
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct backup_options {
	const char *store;
	bool json;
};

static int run(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct backup_options *o = options;
	const char *from = o->store, *to = operands[0];
	char home[PATH_MAX], path[PATH_MAX], size[32];
	struct stat st = {0};
	int r;

	umask(077);
	if (!from) {
		if (path_home(home, sizeof(home), err) ||
			path_join(path, sizeof(path), home, "sealmark.db", err))
			return CLI_OURS;
		from = path;
	}
	if (access(from, F_OK))
		return cli_usage(err, "%s: %s", from, strerror(errno));
	r = store_backup(from, to, err);
	if (r)
		return r == -EEXIST || r == -ENOENT || r == -ENAMETOOLONG ? CLI_USAGE : CLI_OURS;
	if (stat(to, &st))
		return cli_ours(err, "%s: %s", to, strerror(errno));
	if (o->json)
		return remote_print_json(json_pack("{sI}", "bytes", (json_int_t)st.st_size), err);
	cli_write_size(size, sizeof(size), (uint64_t)st.st_size);
	printf("%s: %s, and it is whole\n", to, size);
	return CLI_OK;
}

static const struct cli_option options[] = {
	CLI_OPTION("store", 0, "FILE", "the store (default $SEALMARK_HOME/sealmark.db)",
		"--store /srv/sealmark.db", cli_text, offsetof(struct backup_options, store)),
	CLI_OPTION("json", 0, NULL, "print the size of the copy as JSON", "--json", cli_flag,
		offsetof(struct backup_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_backup = {
	.name = "backup",
	.summary = "Copy the server's store, also while the server runs",
	.operands = "FILE",
	.text = "The store holds keys (their hashes), limits, charges, the audit log and the "
		"records\n"
		"of sandboxes. The copy is of one moment, checked, and only this user's to read; "
		"a\n"
		"FILE that is there is not replaced. Images and sealmark.yaml are files that cp "
		"copies;\n"
		"sealmark-operating(7) says how all of it is put back.",
	.examples = "sealmark backup /var/backups/sealmark-$(date +%F).db\n",
	.options = options,
	.size = sizeof(struct backup_options),
	.least = 1,
	.most = 1,
	.run = run,
};
