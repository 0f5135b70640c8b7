using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Connections;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>A connection of a transport whose wire is a test's: what is written to it can be read, counted and held up.</summary>
internal sealed class FakeClient
{
    private readonly BroadcastTransport _transport;

    public FakeClient(BroadcastTransport transport, ClientProtocol protocol = ClientProtocol.Tcp, WireFormat? format = null, TimeProvider? timeProvider = null)
    {
        _transport = transport;
        var clock = timeProvider ?? TimeProvider.System;
        Connection = new ClientConnection(
            transport.Connections.NextHandle(), protocol, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false),
            new SendQueue(Wire, transport.Limits, transport.Counters, clock), format ?? WireFormat.Raw, clock);
        transport.Connections.Add(Connection);
    }

    public FakeWire Wire { get; } = new();

    public ClientConnection Connection { get; }

    public OutputHandle Handle => Connection.Handle;

    public string Text => Encoding.UTF8.GetString(Wire.Written);

    public FakeClient Join(params string[] groups)
    {
        foreach (var group in groups)
            _transport.Groups.Join(Connection, group);
        return this;
    }

    /// <summary>Is gone: out of its groups and the table.</summary>
    public void Leave()
    {
        _transport.Groups.LeaveAll(Connection);
        _transport.Connections.Remove(Connection);
    }
}
