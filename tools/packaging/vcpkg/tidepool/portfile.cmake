# SPDX-License-Identifier: MIT
# A port beside the sources that it builds: for --overlay-ports, from a checkout.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

set(MALLOC_LIBRARY false)
if("malloc" IN_LIST FEATURES)
  set(MALLOC_LIBRARY true)
endif()

vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -Dmalloc_library=${MALLOC_LIBRARY}
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tidepool)

# Of a static triplet there are no shared libraries; meson makes both for a dynamic one.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
  file(REMOVE
    "${CURRENT_PACKAGES_DIR}/lib/libtidepool.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libtidepool.a"
    "${CURRENT_PACKAGES_DIR}/lib/libtidepool-malloc.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libtidepool-malloc.a")
  file(GLOB STATIC_DEBUG_LIBRARIES
    "${CURRENT_PACKAGES_DIR}/lib/tidepool-debug/*.a" "${CURRENT_PACKAGES_DIR}/debug/lib/tidepool-debug/*.a")
  if(STATIC_DEBUG_LIBRARIES)
    file(REMOVE ${STATIC_DEBUG_LIBRARIES})
  endif()
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
