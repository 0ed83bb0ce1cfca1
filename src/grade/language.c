/* SPDX-License-Identifier: Apache-2.0 - languages by file names, see language.h. */
#include "grade/language.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "intake/tree.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define NAMES_SHOWN 10
#define SOURCE_HEAD (64u << 10) /* of a Java file, searched for its package */
#define OUTPUT      ".prog"     /* no submission holds a hidden file */
#define CLASSES     ".classes"

/* argv as it grows; `failed` is looked at once, at the end */
struct words {
	char **list;
	size_t count;
	bool failed;
};

static void add_word(struct words *w, const char *word)
{
	char **grown = reallocarray(w->list, w->count + 2, sizeof(*grown));

	if (!grown) {
		w->failed = true;
		return;
	}
	w->list = grown;
	grown[w->count] = strdup(word);
	w->failed = w->failed || !grown[w->count];
	w->count += grown[w->count] != NULL;
	grown[w->count] = NULL;
}

static void __attribute__((format(printf, 2, 3)))
add_format(struct words *w, const char *format, ...)
{
	cleanup_free char *word = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&word, format, ap);
	va_end(ap);
	if (n < 0) {
		word = NULL;
		w->failed = true;
		return;
	}
	add_word(w, word);
}

struct choice {
	const struct assignment *assignment;
	int dir_fd;
	const char *const *files;
	const char *main;            /* path of the main file */
	const char *const *suffixes; /* of the language */
	struct words compile, run;
};

static void build_python(struct choice *c);
static void build_c(struct choice *c);
static void build_cpp(struct choice *c);
static void build_java(struct choice *c);
static void build_javascript(struct choice *c);

static const struct language {
	const char *name;
	const char *suffixes[5];
	const char *main; /* the main file's usual name, without suffix; "" for no main file */
	void (*build)(struct choice *c);
} languages[] = {
	{"python", {".py", NULL}, "main", build_python},
	{"c", {".c", NULL}, "", build_c},
	{"c++", {".cpp", ".cc", ".cxx", NULL}, "", build_cpp},
	{"java", {".java", NULL}, "Main", build_java},
	{"javascript", {".js", ".mjs", ".cjs", NULL}, "main", build_javascript},
};

static bool has_suffix(const char *path, const char *const *suffixes)
{
	for (; *suffixes; suffixes++) {
		if (text_ends(path, *suffixes))
			return true;
	}
	return false;
}

/* source files of the language, in order; "./" keeps a name like -x.c from being an option */
static void add_sources(struct words *w, const struct choice *c)
{
	for (const char *const *f = c->files; *f; f++) {
		if (has_suffix(*f, c->suffixes))
			add_format(w, "./%s", *f);
	}
}

static void build_python(struct choice *c)
{
	add_word(&c->run, "python3");
	add_format(&c->run, "./%s", c->main);
}

static void build_javascript(struct choice *c)
{
	add_word(&c->run, "node");
	add_format(&c->run, "./%s", c->main);
}

static void build_c(struct choice *c)
{
	static const char *const before[] = {"gcc", "-O2", "-std=gnu17", "-o", OUTPUT};

	for (size_t i = 0; i < ARRAY_SIZE(before); i++)
		add_word(&c->compile, before[i]);
	add_sources(&c->compile, c);
	add_word(&c->compile, "-lm");
	add_word(&c->run, "./" OUTPUT);
}

static void build_cpp(struct choice *c)
{
	static const char *const before[] = {"g++", "-O2", "-std=gnu++20", "-o", OUTPUT};

	for (size_t i = 0; i < ARRAY_SIZE(before); i++)
		add_word(&c->compile, before[i]);
	add_sources(&c->compile, c);
	add_word(&c->run, "./" OUTPUT);
}

/* past blanks and comments */
static const char *skip_java_blanks(const char *p)
{
	for (;;) {
		const char *end;

		while (isspace((unsigned char)*p))
			p++;
		if (p[0] == '/' && p[1] == '/')
			end = strchr(p, '\n');
		else if (p[0] == '/' && p[1] == '*')
			end = strstr(p + 2, "*/");
		else
			return p;
		if (!end)
			return "";
		p = end + (*end == '\n' ? 1 : 2);
	}
}

/* "a.b." when the source begins with `package a.b;`, else "" */
static void find_java_package(const struct choice *c, char *out, size_t size)
{
	struct buffer source = {0};
	cleanup_close int fd = tree_open(c->dir_fd, c->main, NULL);
	const char *p;
	size_t n;

	out[0] = 0;
	if (fd < 0)
		return;
	path_read_fd(fd, SOURCE_HEAD, &source); /* a longer file: its head is there */
	p = buffer_text(&source);
	if (p && text_starts(p, "\xef\xbb\xbf"))
		p += 3;
	p = p ? skip_java_blanks(p) : "";
	if (text_starts(p, "package") && isspace((unsigned char)p[7])) {
		p = skip_java_blanks(p + 7);
		for (n = 0;
			isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '.' || p[n] == '$';
			n++)
			;
		if (n && n + 2 < size) {
			memcpy(out, p, n);
			memcpy(out + n, ".", 2);
		}
	}
	buffer_fini(&source);
}

static void build_java(struct choice *c)
{
	const char *slash = strrchr(c->main, '/'), *base = slash ? slash + 1 : c->main;
	uint64_t mib = c->assignment->limits.memory_bytes >> 20;
	char package[200];

	find_java_package(c, package, sizeof(package));
	add_word(&c->compile, "javac");
	add_word(&c->compile, "-J-XX:+UseSerialGC");
	add_word(&c->compile, "-encoding");
	add_word(&c->compile, "UTF-8");
	add_word(&c->compile, "-d");
	add_word(&c->compile, CLASSES);
	add_sources(&c->compile, c);
	add_word(&c->run, "java");
	add_word(&c->run, "-XX:+UseSerialGC"); /* one thread less for each garbage collector */
	add_word(&c->run, "-XX:-UsePerfData");
	add_word(&c->run, "-Xss64m");
	/* the machine's own share, beside the heap, is some 60 MiB */
	add_format(&c->run, "-Xmx%" PRIu64 "m", mib > 160 ? mib - 80 : mib / 2);
	add_word(&c->run, "-cp");
	add_word(&c->run, CLASSES);
	add_format(&c->run, "%s%.*s", package, (int)(strlen(base) - strlen(".java")), base);
}

/* "a.py, b.py and 3 more" */
static void list_files(struct buffer *out, const char *const *files, const char *const *suffixes)
{
	char shown[700];
	size_t n = 0;

	for (; *files; files++) {
		if (suffixes && !has_suffix(*files, suffixes))
			continue;
		if (n++ < NAMES_SHOWN)
			buffer_printf(out, "%s%s", n > 1 ? ", " : "",
				tree_show(*files, shown, sizeof(shown)));
	}
	if (n > NAMES_SHOWN)
		buffer_printf(out, " and %zu more", n - NAMES_SHOWN);
}

static size_t count_suffix(const char *const *files, const char *const *suffixes, const char **one)
{
	size_t n = 0;

	for (; *files; files++) {
		if (has_suffix(*files, suffixes)) {
			*one = *files;
			n++;
		}
	}
	return n;
}

/* the main file by the rules of language.h; NULL when they name none */
static const char *find_main(const struct choice *c, const struct language *lang)
{
	const char *one = NULL;

	for (char **w = c->assignment->files; *w; w++) {
		if (has_suffix(*w, lang->suffixes))
			return *w;
	}
	for (const char *const *f = c->files; *f; f++) {
		size_t n = strlen(lang->main);

		if (strncmp(*f, lang->main, n) == 0 && has_suffix(*f, lang->suffixes) &&
			!strchr(*f + n + 1, '.') && (*f)[n] == '.')
			return *f;
	}
	return count_suffix(c->files, lang->suffixes, &one) == 1 ? one : NULL;
}

static int refuse(const struct choice *c, const struct language *lang, struct error *err)
{
	struct buffer names = {0};
	int r;

	list_files(&names, c->files, lang ? lang->suffixes : NULL);
	if (!buffer_text(&names))
		r = -ENOMEM;
	else if (lang)
		r = error_set(err, -EINVAL,
			"cannot tell which file is the program: %s; name it %s%s",
			buffer_text(&names), lang->main, lang->suffixes[0]);
	else
		r = error_set(err, -EINVAL,
			"no program found (.py, .c, .cpp, .java, .js); found %s",
			buffer_text(&names));
	buffer_fini(&names);
	return r;
}

/* The language with a wanted file, else the one with the most files (the first such). */
static const struct language *find_language(const struct choice *c)
{
	const struct language *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		const char *one;
		size_t n = count_suffix(c->files, languages[i].suffixes, &one);

		for (char **w = c->assignment->files; *w; w++) {
			if (has_suffix(*w, languages[i].suffixes))
				return &languages[i];
		}
		if (n > most) {
			most = n;
			best = &languages[i];
		}
	}
	return best;
}

static int copy_argv(char **argv, char ***out)
{
	struct words w = {0};

	for (; argv && *argv; argv++)
		add_word(&w, *argv);
	*out = w.list;
	return w.failed ? -ENOMEM : 0;
}

void program_fini(struct program *p)
{
	for (char **w = p->compile; w && *w; w++)
		free(*w);
	for (char **w = p->run; w && *w; w++)
		free(*w);
	free(p->compile);
	free(p->run);
	*p = (struct program){0};
}

int program_find(const struct assignment *a, int dir_fd, const char *const *files,
	struct program *out, struct error *err)
{
	struct choice c = {.assignment = a, .dir_fd = dir_fd, .files = files};
	const struct language *lang;
	int r;

	*out = (struct program){.language = ""};
	if (a->run) { /* the assignment's commands; compile may be NULL */
		r = copy_argv(a->compile, &out->compile);
		r = r ? r : copy_argv(a->run, &out->run);
	} else {
		lang = find_language(&c);
		if (!lang)
			return refuse(&c, NULL, err);
		c.main = *lang->main ? find_main(&c, lang) : "";
		if (!c.main)
			return refuse(&c, lang, err);
		c.suffixes = lang->suffixes;
		lang->build(&c);
		*out = (struct program){lang->name, c.compile.list, c.run.list};
		r = c.compile.failed || c.run.failed ? -ENOMEM : 0;
	}
	if (r) {
		program_fini(out);
		return error_set(err, r, "out of memory");
	}
	return 0;
}
