// React, its router and Chakra come from Airflow's own page, so the plugin has Airflow's look and ships no copy of them.
export const { createElement: h, Fragment, createContext, useCallback, useContext, useEffect, useLayoutEffect, useId } =
  globalThis.React;
export const { useMemo, useRef, useState } = globalThis.React;
export const { Link: RouterLink, useSearchParams } = globalThis.ReactRouterDOM;
export const { Alert, Badge, Box, Button, Checkbox, Code, Dialog, Flex, Grid, Heading, HStack, Input } = globalThis.ChakraUI;
export const { NativeSelect, Popover, Portal, SimpleGrid, Skeleton, Stack, Table, Text, Textarea, Wrap } =
  globalThis.ChakraUI;
