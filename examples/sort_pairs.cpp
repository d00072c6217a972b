/* sort_pairs.cpp: lines "key<TAB>value" in, the same lines out by key, in 16 MiB of memory.
 *
 *     sort_pairs [FROM [TO]] < pairs
 *
 * With FROM, and TO, only keys from FROM on and below TO. The work is in sorter.hpp. */
#include "sorter.hpp"

#include <iostream>

static void print(std::string_view key, std::string_view value) {
    std::cout << key << '\t' << value << '\n';
    if (!std::cout)
        throw std::runtime_error("cannot write");
}

static void sort_pairs(const char *from, const char *to) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = 16u << 20;
    Sorter sorter(options);
    for (std::string line; std::getline(std::cin, line);) {
        std::string_view view = line;
        std::size_t tab = view.find('\t');
        if (tab == view.npos)
            sorter.collect(view, "");
        else
            sorter.collect(view.substr(0, tab), view.substr(tab + 1));
    }
    if (from != nullptr)
        sorter.range(from, to, print);
    else
        sorter.load(print);
    std::cout.flush();
    if (!std::cout)
        throw std::runtime_error("cannot write");
}

int main(int argc, char **argv) {
    std::ios::sync_with_stdio(false);
    try {
        sort_pairs(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : "");
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "sort_pairs: " << error.what() << '\n';
        return 1;
    }
}
