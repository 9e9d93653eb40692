#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fail.h"

// ---- Finding ----

static bool is_executable_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static const char *find_in_path(const char *name) {
    const char *path = getenv("PATH");
    for (const char *folder = path != NULL ? path : "/usr/bin:/bin"; folder != NULL;) {
        const char *end = strchrnul(folder, ':');
        int length = (int)(end - folder);
        char *candidate;
        // An empty entry of PATH is the working directory.
        if (asprintf(&candidate, "%.*s/%s", length == 0 ? 1 : length, length == 0 ? "." : folder,
                     name) < 0)
            fail(FAILED_ITSELF, "no memory to look for %s in PATH", name);
        if (is_executable_file(candidate)) return candidate;
        free(candidate);
        folder = *end == ':' ? end + 1 : NULL;
    }
    return NULL;
}

const char *program_find(const char *name) {
    if (strchr(name, '/') == NULL) {
        const char *found = *name == '\0' ? NULL : find_in_path(name);
        if (found == NULL)
            fail(FAILED_TO_FIND, "cannot find the program %s in PATH; install it or give its path",
                 name);
        return found;
    }
    struct stat status;
    if (stat(name, &status) != 0)
        fail(errno == ENOENT || errno == ENOTDIR ? FAILED_TO_FIND : FAILED_TO_START,
             "cannot start %s: %s; check the path", name, strerror(errno));
    if (!is_executable_file(name))
        fail(FAILED_TO_START,
             "cannot start %s: it is not a file that you may execute; see chmod(1)", name);
    return name;
}

// ---- Looking inside ----

// The kernel follows scripts whose interpreters are scripts this far.
enum { SCRIPTS_DEEP = 4, SCRIPT_LINE = 256 };

// An executable being examined.
struct image {
    const char *path;
    int descriptor;
};

static bool read_at(const struct image *image, off_t offset, void *out, size_t bytes) {
    return pread(image->descriptor, out, bytes, offset) == (ssize_t)bytes;
}

static void refuse_privileged(const struct image *image) {
    struct stat status;
    if (fstat(image->descriptor, &status) != 0)
        fail(FAILED_TO_START, "cannot examine %s: %s", image->path, strerror(errno));
    bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
    bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
    bool capable =
        getuid() != 0 && fgetxattr(image->descriptor, "security.capability", NULL, 0) > 0;
    if (other_user || other_group || capable)
        fail(FAILED_TO_START,
             "%s gains privileges when started (setuid, setgid or capabilities), "
             "and such programs ignore preloaded libraries; start it as the user that it becomes",
             image->path);
}

static bool has_interpreter(const struct image *image, const ElfW(Ehdr) * header) {
    for (unsigned i = 0; i < header->e_phnum; ++i) {
        ElfW(Phdr) segment;
        if (!read_at(image, (off_t)(header->e_phoff + i * sizeof segment), &segment,
                     sizeof segment))
            fail(FAILED_TO_START, "cannot start %s: its ELF header is damaged", image->path);
        if (segment.p_type == PT_INTERP) return true;
    }
    return false;
}

static void require_dynamic(const struct image *image) {
    ElfW(Ehdr) header, self;
    struct image launcher = {"/proc/self/exe", open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    if (!read_at(&launcher, 0, &self, sizeof self))
        fail(FAILED_ITSELF, "cannot read %s: is /proc mounted?", launcher.path);
    close(launcher.descriptor);
    if (!read_at(image, 0, &header, sizeof header) ||
        header.e_ident[EI_CLASS] != self.e_ident[EI_CLASS] || header.e_machine != self.e_machine)
        fail(FAILED_TO_START,
             "%s is built for another machine or word size than libfcmalloc.so; "
             "build fcmalloc for it",
             image->path);
    if (!has_interpreter(image, &header))
        fail(FAILED_TO_START,
             "%s is linked statically and ignores preloaded libraries; link it "
             "dynamically, or with libfcmalloc.a",
             image->path);
}

// Reads the interpreter that a script's first line names into `line`; NULL where it names none.
static char *script_interpreter(const struct image *image, char line[SCRIPT_LINE]) {
    ssize_t bytes = pread(image->descriptor, line, SCRIPT_LINE - 1, 0);
    if (bytes < 2 || memcmp(line, "#!", 2) != 0) return NULL;
    line[bytes] = '\0';
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
    return interpreter;
}

void program_require_preloadable(const char *path) {
    char lines[SCRIPTS_DEEP + 1][SCRIPT_LINE];
    for (unsigned depth = 0; depth <= SCRIPTS_DEEP; ++depth) {
        struct image image = {path, open(path, O_RDONLY | O_CLOEXEC)};
        // What may be executed and not read cannot be examined; that is no reason to refuse it.
        if (image.descriptor < 0 && errno == EACCES) return;
        if (image.descriptor < 0)
            fail(FAILED_TO_START, "cannot start %s: %s; check the first line of the script", path,
                 strerror(errno));
        char magic[SELFMAG];
        if (read_at(&image, 0, magic, sizeof magic) && memcmp(magic, ELFMAG, SELFMAG) == 0) {
            refuse_privileged(&image);
            require_dynamic(&image);
            close(image.descriptor);
            return;
        }
        const char *interpreter = script_interpreter(&image, lines[depth]);
        close(image.descriptor);
        if (interpreter == NULL || *interpreter == '\0')
            fail(FAILED_TO_START,
                 "%s is neither a program nor a script that names its interpreter; "
                 "name the interpreter yourself: fcmalloc run -- sh %s",
                 path, path);
        path = interpreter;
    }
    fail(FAILED_TO_START, "%s: the interpreters of scripts are scripts, more than %d deep", path,
         SCRIPTS_DEEP);
}
