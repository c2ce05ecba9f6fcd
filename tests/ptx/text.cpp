// The text of PTX: files into kernels, kernels into statements, operands into registers and
// constants. Laid out as nvcc does: a kernel's braces stand alone in their lines.
#include "tests/ptx/interpreter.h"

#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

namespace ptx {

namespace {

// Without blanks at both ends.
std::string trimmed(const std::string &text) {
    size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

bool begins(const std::string &text, const char *with) {
    return !text.compare(0, strlen(with), with);
}

size_t aligned(size_t at, size_t to) {
    return (at + to - 1) / to * to;
}

// Sizes of ".align 8 .b8 name[32]" and ".u64 name".
struct Declaration {
    std::string name;
    size_t bytes, alignment;
};

size_t type_bytes(const std::string &type) { // ".b32"
    return strtoul(type.c_str() + 2, nullptr, 10) / 8;
}

Declaration declaration(const std::string &text) {
    std::istringstream words(text);
    Declaration d = {"", 0, 0};
    for (std::string word; words >> word;) {
        if (word == ".align") {
            words >> d.alignment;
        } else if (word[0] == '.') {
            if (strchr("bufs", word[1]) && isdigit(word[2])) d.bytes = type_bytes(word);
        } else {
            size_t bracket = word.find('[');
            d.name = word.substr(0, bracket);
            if (!d.alignment) d.alignment = d.bytes;
            if (bracket != std::string::npos)
                d.bytes *= strtoul(word.c_str() + bracket + 1, nullptr, 10);
        }
    }
    return d;
}

// ---- modules ----

struct Lines {
    const std::string &text;
    size_t at, next;
    uint32_t number;
    std::string line;

    bool read() {
        if (next >= text.size()) return false;
        at = next;
        size_t end = text.find('\n', at);
        if (end == std::string::npos) end = text.size();
        line.assign(text, at, end - at);
        next = end + 1;
        number++;
        return true;
    }
};

std::string entry_name(const std::string &line) {
    size_t at = line.find(".entry ") + 7, end = line.find_first_of("( \t", at);
    return line.substr(at, end - at);
}

void read_entry(Lines &lines, const std::shared_ptr<const Module> &module, Kernels &kernels) {
    std::string name = entry_name(lines.line);
    if (kernels.count(name)) {
        fprintf(stderr, "ptx: two kernels are called %s: %s and %s\n", name.c_str(),
                kernels[name].module->path.c_str(), module->path.c_str());
        abort();
    }
    Kernel &kernel = kernels[name];
    kernel.name = name;
    kernel.module = module;
    kernel.header = lines.at;
    kernel.header_line = lines.number;
    while (lines.line != "{" && lines.read())
        ;
    kernel.body = lines.next;
    kernel.body_line = lines.number + 1;
    while (lines.line != "}" && lines.read())
        ;
    kernel.end = lines.at;
}

} // namespace

void read_module(const std::string &path, std::string text, Kernels &kernels) {
    auto module = std::make_shared<Module>(Module{path, std::move(text), {}, {}, {}});
    Lines lines = {module->text, 0, 0, 0, ""};
    while (lines.read()) {
        const std::string line = trimmed(lines.line);
        if (line.find(".entry ") != std::string::npos) {
            read_entry(lines, module, kernels);
        } else if (begins(line, ".file")) {
            size_t quote = line.find('"');
            module->files[(unsigned)atoi(line.c_str() + 5)] =
                line.substr(quote + 1, line.rfind('"') - quote - 1);
        } else if (begins(line, ".shared")) {
            Declaration d = declaration(line.substr(7, line.find(';') - 7));
            module->shared[d.name] = {d.bytes, d.alignment};
        } else if (begins(line, ".extern .shared")) {
            Declaration d = declaration(line.substr(15, line.find(';') - 15));
            module->launched[d.name] = d.alignment;
        } else if (line.find(".global ") != std::string::npos || begins(line, ".const") ||
                   begins(line, ".func") || begins(line, ".extern")) {
            fprintf(stderr, "ptx: %s:%u: not implemented: %s\n", path.c_str(), lines.number,
                    line.c_str());
            abort();
        }
    }
}

void read_directory(const char *directory, Kernels &kernels) {
    DIR *open = opendir(directory);
    if (!open) {
        fprintf(stderr, "ptx: cannot read %s\n", directory);
        abort();
    }
    while (struct dirent *entry = readdir(open)) {
        std::string name = entry->d_name, path = std::string(directory) + "/" + name;
        struct stat about;
        if (name[0] == '.' || stat(path.c_str(), &about)) continue;
        if (S_ISDIR(about.st_mode)) {
            read_directory(path.c_str(), kernels);
        } else if (name.size() > 4 && name.substr(name.size() - 4) == ".ptx") {
            std::ifstream file(path);
            std::ostringstream text;
            text << file.rdbuf();
            read_module(path, text.str(), kernels);
        }
    }
    closedir(open);
}

// ---- operands ----

void reject(const Kernel &kernel, const Instruction &at, const std::string &why) {
    fprintf(stderr, "ptx: %s:%u: kernel %s: %s: %s\n", kernel.module->path.c_str(), at.line,
            kernel.name.c_str(), why.c_str(), at.text.c_str());
    abort();
}

namespace {

Operand new_register(Kernel &kernel, unsigned width) {
    Operand o = {Operand::REGISTER, (uint8_t)width, (uint32_t)kernel.register_bytes,
                 (uint32_t)kernel.register_count++};
    kernel.register_bytes += width ? width * LANES : 64; // a cache line at least
    return o;
}

Operand new_constant(Kernel &kernel, unsigned width, uint64_t bits) {
    auto known = kernel.known_constants.find({width, bits});
    if (known != kernel.known_constants.end()) return known->second;
    Operand o = {Operand::CONSTANT, (uint8_t)width, (uint32_t)kernel.constants.size(), 0};
    kernel.constants.resize(o.at + (width ? width * LANES : 64));
    uint8_t *to = kernel.constants.data() + o.at;
    uint32_t predicate = bits ? ALL : 0;
    if (!width) memcpy(to, &predicate, sizeof predicate);
    for (unsigned l = 0; l < LANES && width; l++)
        memcpy(to + l * width, &bits, width); // little-endian
    return kernel.known_constants[{width, bits}] = o;
}

// 12, -1, 0x1f, 0f3F800000, 0d3FF0000000000000.
bool number(const std::string &text, uint64_t *bits) {
    if (!isdigit(text[0]) && text[0] != '-') return false;
    bool is_float = text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1]);
    char *end;
    *bits = is_float ? strtoull(text.c_str() + 2, &end, 16) : strtoull(text.c_str(), &end, 0);
    return !*end || !strcmp(end, "U");
}

void place_shared(Kernel &kernel, const std::string &name, size_t bytes, size_t alignment) {
    if (kernel.uses_launched && bytes) {
        fprintf(stderr, "ptx: kernel %s: not implemented: .shared %s behind the .extern one\n",
                kernel.name.c_str(), name.c_str());
        abort();
    }
    kernel.shared_at[name] = aligned(kernel.shared_bytes, alignment);
    kernel.shared_bytes = kernel.shared_at[name] + bytes;
}

// Behind all other shared memory of the kernel.
void place_launched(Kernel &kernel, const std::string &name, size_t alignment) {
    const Module &module = *kernel.module;
    std::string body = module.text.substr(kernel.body, kernel.end - kernel.body);
    for (const auto &[other, sizes] : module.shared)
        if (!kernel.shared_at.count(other) && body.find(other) != std::string::npos)
            place_shared(kernel, other, sizes.first, sizes.second);
    place_shared(kernel, name, 0, kernel.uses_launched ? 1 : alignment);
    kernel.uses_launched = true;
}

// Address of a variable; shared and local ones count from 0.
bool symbol(Kernel &kernel, const std::string &name, uint64_t *value) {
    auto parameter = kernel.parameter_at.find(name);
    auto local = kernel.local_at.find(name);
    auto shared = kernel.module->shared.find(name);
    auto launched = kernel.module->launched.find(name);
    if (parameter != kernel.parameter_at.end()) {
        *value = (uint64_t)(uintptr_t)kernel.parameter_bytes.data() + parameter->second;
    } else if (local != kernel.local_at.end()) {
        *value = local->second;
    } else if (kernel.shared_at.count(name)) {
        *value = kernel.shared_at[name];
    } else if (shared != kernel.module->shared.end()) {
        place_shared(kernel, name, shared->second.first, shared->second.second);
        *value = kernel.shared_at[name];
    } else if (launched != kernel.module->launched.end()) {
        place_launched(kernel, name, launched->second);
        *value = kernel.shared_at[name];
    } else {
        return false;
    }
    return true;
}

bool is_special(const std::string &name) {
    for (const char *known : {"%tid.", "%ntid.", "%ctaid.", "%nctaid."})
        if (begins(name, known)) return true;
    return name == "%laneid" || name == "%warpid";
}

} // namespace

Operand operand(Kernel &kernel, const Instruction &at, const std::string &text, unsigned width) {
    if (text == "_") return {Operand::NONE, (uint8_t)width, 0, 0};
    auto known = kernel.registers.find(text);
    if (known != kernel.registers.end()) return known->second;
    if (is_special(text)) {
        kernel.special.push_back({text, new_register(kernel, 4)});
        return kernel.registers[text] = kernel.special.back().second;
    }
    uint64_t value;
    size_t plus = text.find('+');
    if (number(text, &value)) return new_constant(kernel, width, value);
    if (symbol(kernel, text.substr(0, plus), &value)) {
        if (plus != std::string::npos) value += strtoull(text.c_str() + plus + 1, nullptr, 0);
        return new_constant(kernel, width, value);
    }
    reject(kernel, at, "what is " + text);
}

std::vector<std::string> parts(const std::string &text) {
    if (text[0] != '{') return {text};
    std::vector<std::string> found;
    std::istringstream inner(text.substr(1, text.size() - 2));
    for (std::string part; std::getline(inner, part, ',');)
        found.push_back(trimmed(part));
    return found;
}

void address(Kernel &kernel, Instruction &instruction, const std::string &text) {
    if (text[0] != '[') reject(kernel, instruction, "not an address: " + text);
    std::string inner = text.substr(1, text.size() - 2);
    size_t plus = inner.find('+');
    uint64_t offset = 0;
    if (plus != std::string::npos && !number(trimmed(inner.substr(plus + 1)), &offset))
        reject(kernel, instruction, "not an offset: " + inner);
    instruction.offset = (int64_t)offset;
    instruction.sources.push_back(operand(kernel, instruction, trimmed(inner.substr(0, plus)), 8));
}

// ---- kernels ----

namespace {

struct Parser {
    Kernel &kernel;
    const std::string &text;
    size_t at;
    uint32_t line;
    unsigned file, source_line;
    std::map<std::string, uint32_t> labels;
    std::vector<std::pair<size_t, std::string>> jumps; // instruction, label

    void skip_blanks();
    std::string until(char end);
    void declare_registers(const std::string &what);
    void directive();
    void statement(const std::string &whole);
    bool label();
    void body();
};

void Parser::skip_blanks() {
    while (at < kernel.end) {
        if (text[at] == '\n') line++;
        if (!text.compare(at, 2, "//"))
            at = text.find('\n', at);
        else if (isspace(text[at]))
            at++;
        else
            return;
    }
}

std::string Parser::until(char end) {
    size_t stop = text.find(end, at);
    std::string found = text.substr(at, stop - at);
    for (char &c : found)
        if (c == '\n') line++;
    at = stop + 1;
    return found;
}

// ".reg .b32 %r<43>", ".reg .b32 a, b".
void Parser::declare_registers(const std::string &what) {
    std::istringstream words(what);
    std::string word, type;
    words >> word >> type;
    unsigned width = type == ".pred" ? (unsigned)PREDICATE : (unsigned)type_bytes(type);
    if (width == 1) width = 2;
    std::string names;
    std::getline(words, names);
    for (const std::string &name : parts("{" + names + "}")) {
        size_t bracket = name.find('<');
        if (bracket == std::string::npos) {
            kernel.registers[name] = new_register(kernel, width);
            continue;
        }
        unsigned count = (unsigned)atoi(name.c_str() + bracket + 1);
        for (unsigned i = 0; i < count; i++)
            kernel.registers[name.substr(0, bracket) + std::to_string(i)] =
                new_register(kernel, width);
    }
}

void Parser::directive() {
    if (!text.compare(at, 4, ".loc") && isspace(text[at + 4])) {
        std::string words = text.substr(at, text.find('\n', at) - at);
        at += words.size();
        std::istringstream(words.substr(4)) >> file >> source_line;
        return;
    }
    std::string words = trimmed(until(';'));
    if (begins(words, ".reg")) {
        declare_registers(words);
    } else if (begins(words, ".local")) {
        Declaration d = declaration(words.substr(6));
        kernel.local_at[d.name] = aligned(kernel.local_bytes, d.alignment);
        kernel.local_bytes = kernel.local_at[d.name] + d.bytes;
    } else if (begins(words, ".shared")) {
        Declaration d = declaration(words.substr(7));
        place_shared(kernel, d.name, d.bytes, d.alignment);
    } else if (!begins(words, ".pragma")) {
        Instruction here = {};
        here.line = line, here.text = words;
        reject(kernel, here, "not implemented");
    }
}

// Operands are separated by commas outside of braces and brackets.
std::vector<std::string> split_operands(const std::string &text) {
    std::vector<std::string> found;
    size_t from = 0;
    int depth = 0;
    for (size_t i = 0; i <= text.size(); i++) {
        char c = i < text.size() ? text[i] : ',';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != ',' || (depth && i < text.size())) continue;
        found.push_back(trimmed(text.substr(from, i - from)));
        from = i + 1;
    }
    if (found.size() == 1 && found[0].empty()) found.clear();
    return found;
}

void Parser::statement(const std::string &whole) {
    Instruction i = {};
    i.line = line, i.source_file = file, i.source_line = source_line;
    i.text = trimmed(whole);
    std::string rest = i.text;
    if (rest[0] == '@') {
        size_t blank = rest.find_first_of(" \t");
        i.guard_negated = rest[1] == '!';
        i.guard = operand(kernel, i, rest.substr(1 + i.guard_negated, blank - 1 - i.guard_negated),
                          PREDICATE);
        rest = trimmed(rest.substr(blank));
    }
    size_t blank = rest.find_first_of(" \t");
    Statement s = {rest.substr(0, blank), {}};
    if (blank != std::string::npos) s.operands = split_operands(rest.substr(blank));
    if (s.opcode == "bra" || s.opcode == "bra.uni") {
        i.control = Control::BRANCH;
        jumps.push_back({kernel.code.size(), s.operands.at(0)});
    } else {
        decode(kernel, i, s);
    }
    kernel.code.push_back(std::move(i));
}

bool Parser::label() {
    size_t end = at;
    while (isalnum(text[end]) || strchr("$_.", text[end]))
        end++;
    if (end == at || text[end] != ':' || text[end + 1] == ':')
        return false; // ld.nc.L1::no_allocate
    labels[text.substr(at, end - at)] = (uint32_t)kernel.code.size();
    at = end + 1;
    return true;
}

// The braces of inline assembly: registers declared in them take the place of earlier ones.
void Parser::body() {
    for (skip_blanks(); at < kernel.end; skip_blanks()) {
        if (text[at] == '{' || text[at] == '}' || text[at] == ';')
            at++;
        else if (text[at] == '.')
            directive();
        else if (!label())
            statement(until(';'));
    }
    for (const auto &[instruction, name] : jumps) {
        auto found = labels.find(name);
        if (found == labels.end()) reject(kernel, kernel.code[instruction], "no such label");
        kernel.code[instruction].target = found->second;
    }
}

void declare_parameters(Kernel &kernel) {
    const std::string &text = kernel.module->text;
    size_t open = text.find('(', kernel.header), close = text.find(')', kernel.header), bytes = 0;
    if (open > kernel.body) return; // none
    for (const std::string &one : parts("{" + text.substr(open + 1, close - open - 1) + "}")) {
        if (one.empty()) continue;
        Declaration d = declaration(one);
        bytes = aligned(bytes, d.alignment);
        kernel.parameter_at[d.name] = bytes;
        kernel.parameters.push_back({bytes, d.bytes});
        bytes += d.bytes;
    }
    kernel.parameter_bytes.assign(bytes + 1, 0xff); // its address stays
}

} // namespace

void parse(Kernel &kernel) {
    if (kernel.parsed) return;
    kernel.parsed = true;
    declare_parameters(kernel);
    Parser parser = {kernel, kernel.module->text, kernel.body, kernel.body_line, 0, 0, {}, {}};
    parser.body();
}

} // namespace ptx
