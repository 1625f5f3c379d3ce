// React, its router and Chakra come from Airflow's own page: the plugin has Airflow's look, and ships no copy of them.
export const { createElement: h, createContext, Fragment } = globalThis.React;
export const { useCallback, useContext, useEffect, useId, useLayoutEffect, useRef, useState } = globalThis.React;
export const { Link: RouterLink, useSearchParams } = globalThis.ReactRouterDOM;
export const { Alert, Badge, Box, Button, Code, Dialog, Flex, Grid, Heading, HStack, Input } = globalThis.ChakraUI;
export const { NativeSelect, Popover, Portal, SimpleGrid, Skeleton, Stack, Table } = globalThis.ChakraUI;
export const { Text, Textarea, Wrap } = globalThis.ChakraUI;
