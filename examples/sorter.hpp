/* sorter.hpp: libetl as C++17 has it: a collector that destroys itself, failures as exceptions, and
 * pairs as string_views. No value and the empty value are the same here. */
#ifndef LIBETL_EXAMPLES_SORTER_HPP
#define LIBETL_EXAMPLES_SORTER_HPP

#include <etl.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

class Sorter {
  public:
    explicit Sorter(const etl_options &options = LIBETL_OPTIONS_INIT) {
        etl_collector *made = nullptr;
        char message[256];
        if (etl_collector_create_message(&made, &options, message, sizeof message) != ETL_OK)
            throw std::runtime_error(message);
        collector.reset(made);
    }

    void collect(std::string_view key, std::string_view value) {
        /* Of an empty view data() may be null, which would be no value at all. */
        etl_slice slice = value.empty() ? etl_slice_str("") : slice_of(value);
        check(etl_collect(collector.get(), slice_of(key), slice));
    }

    /* Hands each pair to take, in order; the views live until it returns. What take throws comes
     * out here: an exception may not pass through C, so it waits while etl_load comes back. Then,
     * as after any failure, all pairs are still there. */
    template <typename Take> void load(Take &&take) {
        Load<Take> load{take, nullptr};
        int status = etl_load(collector.get(), Load<Take>::call, &load);
        if (load.thrown)
            std::rethrow_exception(load.thrown);
        check(status);
    }

    /* The pairs with from <= key < to; an empty `to` means: to the end. Returns their number. */
    template <typename Take>
    std::size_t range(std::string_view from, std::string_view to, Take &&take) {
        etl_range bounds = {slice_of(from), to.empty() ? etl_slice{nullptr, 0} : slice_of(to)};
        etl_iter *opened = nullptr;
        check(etl_iter_open(&opened, collector.get(), &bounds));
        std::unique_ptr<etl_iter, Destroy> iter(opened);
        std::size_t count = 0;
        etl_slice key, value;
        int status;
        for (; (status = etl_iter_next(opened, &key, &value)) == ETL_OK; count++)
            take(view_of(key), view_of(value));
        if (status != ETL_END)
            check(status);
        return count;
    }

  private:
    struct Destroy {
        void operator()(etl_collector *owned) const {
            etl_collector_destroy(owned);
        }
        void operator()(etl_iter *owned) const {
            etl_iter_close(owned);
        }
    };

    template <typename Take> struct Load {
        Take &take;
        std::exception_ptr thrown;

        static int call(void *context, etl_slice key, etl_slice value) noexcept {
            auto *load = static_cast<Load *>(context);
            try {
                load->take(view_of(key), view_of(value));
                return 0;
            } catch (...) {
                load->thrown = std::current_exception();
                return 1;
            }
        }
    };

    static etl_slice slice_of(std::string_view text) {
        return etl_slice_of(text.data(), text.size());
    }

    static std::string_view view_of(etl_slice slice) {
        return {static_cast<const char *>(slice.data), slice.size};
    }

    void check(int status) const {
        if (status != ETL_OK)
            throw std::runtime_error(std::string(etl_status_string(status)) + ": " +
                                     etl_collector_message(collector.get()));
    }

    std::unique_ptr<etl_collector, Destroy> collector;
};

#endif
