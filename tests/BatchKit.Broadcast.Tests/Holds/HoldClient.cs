using BatchKit.Broadcast.Tests.Clients;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>A client with what checks it.</summary>
internal sealed record HoldClient(TestClient Socket, ClientConnection Connection, MemberLog Log)
{
    /// <summary>The streams whose groups it is in for good.</summary>
    public required IReadOnlyList<int> Stays { get; init; }

    public OutputHandle Handle => Connection.Handle;
}
