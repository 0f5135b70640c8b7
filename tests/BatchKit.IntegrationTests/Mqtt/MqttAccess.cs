using BatchKit.Mqtt;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>One client that tries to get in, and all that can be read of it afterwards: a secret must not be there.</summary>
internal sealed class MqttAccess : IAsyncDisposable
{
    private readonly LogCollector _log = new();
    private readonly MqttTransport _transport;

    public MqttAccess(string scheme, int port, MqttVersion version = MqttVersion.V5, Action<MqttOptions>? configure = null)
    {
        var options = new MqttOptions { Server = new Uri($"{scheme}://127.0.0.1:{port}"), Version = version };
        configure?.Invoke(options);
        _transport = new MqttTransport(options, timeProvider: null, new Logger<MqttTransport>(_log));
    }

    public MqttTransport Transport => _transport;

    public LogCollector Log => _log;

    /// <summary>Publishes one message.</summary>
    public async Task PublishAsync()
    {
        var report = await _transport.PublishManyAsync(new[] { new MqttMessage("access", Some.Bytes("in")) }).WithinDeadline();
        Assert.True(report.IsSuccess);
    }

    /// <summary>Publishes one message, which the broker or the client refuses; the log and the health tell the same reason.</summary>
    public async Task<MqttConnectException> RefuseAsync()
    {
        var failure = await Assert.ThrowsAsync<MqttConnectException>(PublishAsync);
        Assert.True(failure.IsRefusal);
        Assert.Equal(failure.Message, _transport.Fault);
        Assert.Contains(failure.Message, _log.Text, StringComparison.Ordinal);
        return failure;
    }

    /// <summary>Publishes one message, for which there is no connection and may be one later; what health says meanwhile.</summary>
    public async Task<string> FailAsync()
    {
        using var stop = new CancellationTokenSource();
        var publishing = _transport.PublishManyAsync(new[] { new MqttMessage("access", Some.Bytes("in")) }, stop.Token).AsTask();
        await _log.WaitForAsync(221);
        var fault = _transport.Fault;
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<Exception>(() => publishing.WithinDeadline());
        Assert.NotNull(fault);
        Assert.Contains(fault, _log.Text, StringComparison.Ordinal);
        return fault;
    }

    public async ValueTask DisposeAsync()
    {
        await _transport.DisposeAsync();
        _log.Dispose();
    }
}
