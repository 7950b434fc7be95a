/** The frame around all pages: navigation, who is logged in, whether live data flows. */
import { Suspense, useEffect, useRef, useState } from "react";
import { useCan, useSession, useSessionContext } from "./api/session";
import { Badge } from "./components/Badge";
import { Button } from "./components/Button";
import { PageFrame } from "./components/Card";
import { Icon } from "./components/Icon";
import { EmptyState, Skeleton } from "./components/notices";
import { ErrorBoundary } from "./ErrorBoundary";
import { chooseTheme, useTheme, type ThemeChoice } from "./lib/theme";
import { useLive } from "./live/store";
import { Link, useLocation } from "./router";
import { routeOf, routeOfAlarm, ROUTES, type Route } from "./routes";

export function Shell() {
  const { path } = useLocation();
  const route = routeOf(path);
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else {
      main.current?.focus(); // keyboard and screen reader start at the new page
      window.scrollTo(0, 0);
    }
  }, [path]);
  return (
    <div className="shell">
      <a className="skip-link" href="#main">
        Skip to the content
      </a>
      <aside className="sidebar">
        <Brand />
        <nav aria-label="Pages">
          <NavList routes={useVisibleRoutes()} />
        </nav>
        <div className="sidebar-foot">
          <LinkState />
          <Who />
        </div>
      </aside>
      <TopBar />
      <main id="main" className="content" ref={main} tabIndex={-1}>
        <div className="content-inner">
          <ErrorBoundary key={path}>
            <Suspense fallback={<Skeleton lines={6} />}>{route ? <route.page /> : <NotFound path={path} />}</Suspense>
          </ErrorBoundary>
        </div>
      </main>
      <BottomBar />
    </div>
  );
}

function useVisibleRoutes(): readonly Route[] {
  const [isOperator, isAdmin] = [useCan("operator"), useCan("admin")];
  return ROUTES.filter(({ needs }) => (needs === "admin" ? isAdmin : needs === "operator" ? isOperator : true));
}

function Brand() {
  return (
    <Link to="/" className="brand">
      <svg
        width="22"
        height="22"
        viewBox="0 0 22 22"
        fill="none"
        stroke="currentColor"
        strokeWidth="2.2"
        aria-hidden="true"
      >
        <path d="M4 5v12M9 5v12M14 5v12" strokeLinecap="round" />
        <path d="m17 8 3 3-3 3" strokeLinecap="round" strokeLinejoin="round" />
      </svg>
      inorder
    </Link>
  );
}

function NavList({ routes, onFollow }: { routes: readonly Route[]; onFollow?: () => void }) {
  return (
    <ul className="nav-list">
      {routes.map((route) => (
        <li key={route.path}>
          <NavLink route={route} onFollow={onFollow} />
        </li>
      ))}
    </ul>
  );
}

function NavLink({ route, onFollow }: { route: Route; onFollow?: (() => void) | undefined }) {
  const { path } = useLocation();
  const all = useLive((state) => state.alarms) ?? [];
  const alarms = all.filter(({ page }) => routeOfAlarm(page) === route);
  const isCritical = alarms.some(({ severity }) => severity === "critical");
  return (
    <Link
      to={route.path}
      className="nav-link"
      aria-current={routeOf(path) === route ? "page" : undefined}
      onClick={onFollow}
    >
      <Icon name={route.icon} />
      {route.title}
      {alarms.length > 0 && (
        <span className="count">
          <Badge tone={isCritical ? "bad" : "warn"}>
            {alarms.length}
            <span className="visually-hidden"> alarms</span>
          </Badge>
        </span>
      )}
    </Link>
  );
}

/** Whether the WebSocket delivers; numbers that stand still should not pass for live ones. */
function LinkState() {
  const link = useLive((state) => state.link);
  const [tone, text] =
    link === "open"
      ? (["ok", "Live"] as const)
      : link === "lost"
        ? (["bad", "Connection lost, trying again"] as const)
        : (["warn", "Connecting"] as const);
  return (
    <p className="link-state" role="status">
      <span className={`dot dot-${tone}`} />
      {text}
    </p>
  );
}

const NEXT: Record<ThemeChoice, { next: ThemeChoice; icon: "screen" | "sun" | "moon" }> = {
  system: { next: "light", icon: "screen" },
  light: { next: "dark", icon: "sun" },
  dark: { next: "system", icon: "moon" },
};

function ThemeButton() {
  const { choice } = useTheme();
  const { next, icon } = NEXT[choice];
  return (
    <Button
      variant="ghost"
      size="small"
      icon={icon}
      iconOnly
      aria-label={`Theme: ${choice}. Change to ${next}`}
      onClick={() => chooseTheme(next)}
    />
  );
}

function Who() {
  const { name, role } = useSession();
  const { logout } = useSessionContext();
  return (
    <div className="who">
      <span className="who-name" title={name}>
        {name}
        <span className="who-role">{role}</span>
      </span>
      <span className="row-actions">
        <ThemeButton />
        <Button
          variant="ghost"
          size="small"
          icon="logout"
          iconOnly
          aria-label="Log out"
          onClick={() => void logout()}
        />
      </span>
    </div>
  );
}

function TopBar() {
  return (
    <header className="topbar">
      <Brand />
      <LinkState />
    </header>
  );
}

function BottomBar() {
  const routes = useVisibleRoutes();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <nav className="bottombar" aria-label="Pages (short)">
        {routes
          .filter(({ isMain }) => isMain)
          .map((route) => (
            <NavLink key={route.path} route={route} />
          ))}
        <button type="button" className="nav-link" aria-haspopup="dialog" onClick={() => setOpen(true)}>
          <Icon name="more" />
          More
        </button>
      </nav>
      {isOpen && <Drawer routes={routes.filter(({ isMain }) => !isMain)} onClose={() => setOpen(false)} />}
    </>
  );
}

function Drawer({ routes, onClose }: { routes: readonly Route[]; onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      className="drawer"
      aria-label="More pages"
      onCancel={onClose}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      <NavList routes={routes} onFollow={onClose} />
      <Who />
    </dialog>
  );
}

function NotFound({ path }: { path: string }) {
  return (
    <PageFrame title="No such page">
      <EmptyState title={`There is no page ${path}`} icon="search">
        <Link to="/">Go to the overview</Link>
      </EmptyState>
    </PageFrame>
  );
}
