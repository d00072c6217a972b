/* The C++ consumer of an installed libetl. */
#include "consumer.h"

int main(int argc, char **argv) {
    return consumer_main(argc, argv);
}
