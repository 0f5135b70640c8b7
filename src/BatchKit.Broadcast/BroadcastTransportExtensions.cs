using System.Net;
using BatchKit.Broadcast.Connections;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Connections.Features;

namespace BatchKit.Broadcast;

/// <summary>Connections of ASP.NET Core's servers.</summary>
public static class BroadcastTransportExtensions
{
    /// <summary>Takes over the output of a connection that Kestrel accepted.</summary>
    /// <param name="transport">The transport.</param>
    /// <param name="connection">Its transport's output is written to, flushed and never completed. It ends when the server reports that the client is gone.</param>
    /// <param name="options">What is known about the connection; what the connection itself provides when null.</param>
    /// <inheritdoc cref="BroadcastTransport.Attach(Stream, AttachOptions)"/>
    public static AttachedConnection Attach(this BroadcastTransport transport, ConnectionContext connection, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentNullException.ThrowIfNull(connection);
        options ??= new AttachOptions
        {
            RemoteEndPoint = connection.RemoteEndPoint as IPEndPoint,
            IsSecure = connection.Features.Get<ITlsHandshakeFeature>() is not null,
            User = connection.Features.Get<IConnectionUserFeature>()?.User,
        };
        var socket = connection.Features.Get<IConnectionSocketFeature>()?.Socket;
        return transport.Attach(AttachedWire.To(connection.Transport.Output, socket), options, ClientProtocol.Tcp, connection.ConnectionClosed);
    }
}
