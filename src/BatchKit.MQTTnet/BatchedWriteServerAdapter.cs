using System.Net;
using BatchKit.MQTTnet.Writing;
using MQTTnet.Adapter;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>
/// Listens for an MQTTnet server in place of its own TCP adapter, so that what waits for a client leaves in one write:
/// <c>new MqttServerFactory().CreateMqttServer(options, [new BatchedWriteServerAdapter()])</c>. The stock adapter writes each packet by itself, its head and its payload apart.
/// </summary>
/// <remarks>
/// It listens as the server's options say, with TLS too. At most 64 KiB wait in a client's channel, then the server's own queue fills as ever. The server counts a message as sent once the
/// channel has it. Other transports, such as ASP.NET Core's, keep their own adapters beside this one.
/// </remarks>
public sealed class BatchedWriteServerAdapter : IMqttServerAdapter
{
    private readonly TimeProvider _timeProvider;
    private readonly List<BatchedWriteListener> _listeners = [];

    /// <summary>Makes an adapter; the server starts it.</summary>
    /// <param name="timeProvider">The time; the system's when null.</param>
    public BatchedWriteServerAdapter(TimeProvider? timeProvider = null) => _timeProvider = timeProvider ?? TimeProvider.System;

    /// <inheritdoc/>
    public Func<IMqttChannelAdapter, Task>? ClientHandler { get; set; }

    /// <inheritdoc/>
    public Task StartAsync(MqttServerOptions options, IMqttNetLogger logger)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(logger);
        if (_listeners.Count > 0)
            throw new InvalidOperationException("The server is started already.");
        if (options.TlsEndpointOptions is { IsEnabled: true, CertificateProvider: null })
            throw new ArgumentException("The TLS end point has no certificate.", nameof(options));
        try
        {
            Listen(options, options.DefaultEndpointOptions, logger);
            Listen(options, options.TlsEndpointOptions, logger);
        }
        catch
        {
            Dispose();
            throw;
        }

        return Task.CompletedTask;
    }

    /// <inheritdoc/>
    public async Task StopAsync()
    {
        var listeners = _listeners.ToArray();
        Dispose();
        foreach (var listener in listeners)
            await listener.Accepting.ConfigureAwait(false);
    }

    /// <summary>Stops listening. Clients that have connected are the server's to end.</summary>
    public void Dispose()
    {
        foreach (var listener in _listeners)
            listener.Dispose();
        _listeners.Clear();
    }

    private void Listen(MqttServerOptions options, MqttServerTcpEndpointBaseOptions? endPoint, IMqttNetLogger logger)
    {
        if (endPoint is not { IsEnabled: true })
            return;
        foreach (var address in (IPAddress?[])[endPoint.BoundInterNetworkAddress, endPoint.BoundInterNetworkV6Address])
        {
            if (address is not null && !address.Equals(IPAddress.None))
                _listeners.Add(new BatchedWriteListener(options, endPoint, address, HandleAsync, logger, _timeProvider));
        }
    }

    private Task HandleAsync(IMqttChannelAdapter adapter) => ClientHandler?.Invoke(adapter) ?? Task.CompletedTask;
}
