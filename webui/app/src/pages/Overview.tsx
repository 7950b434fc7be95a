import { PageFrame } from "../components";

export default function Overview() {
  return <PageFrame title="Overview">.</PageFrame>;
}
