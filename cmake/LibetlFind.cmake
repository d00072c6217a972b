# LibetlFind.cmake: a library that is optional, by its header and its name.
#
#   libetl_find(NAME header library)    sets LIBETL_NAME_INCLUDE, LIBETL_NAME_LIBRARY and, when both
#                                       are there, LIBETL_NAME_FOUND in the caller's scope

function(libetl_find name header library)
    find_path(LIBETL_${name}_INCLUDE ${header})
    find_library(LIBETL_${name}_LIBRARY ${library})
    mark_as_advanced(LIBETL_${name}_INCLUDE LIBETL_${name}_LIBRARY)
    set(LIBETL_${name}_FOUND OFF PARENT_SCOPE)
    if(LIBETL_${name}_INCLUDE AND LIBETL_${name}_LIBRARY)
        set(LIBETL_${name}_FOUND ON PARENT_SCOPE)
    endif()
endfunction()
