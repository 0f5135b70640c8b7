using BatchKit.Broadcast.Tests.Clients;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>One of many clients.</summary>
internal sealed record CrowdClient(TestClient Socket, ClientConnection Connection, ReceivedLines Lines)
{
    public OutputHandle Handle => Connection.Handle;
}
