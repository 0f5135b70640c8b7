using MassTransit;
using Microsoft.Extensions.Logging;

namespace BatchKit.MassTransit;

/// <summary>Notes whether a receive endpoint receives, and why not.</summary>
internal sealed class EndpointWatch(string queue, ConnectionAge age, ILogger logger) : IReceiveEndpointObserver
{
    private volatile string? _fault = "The receiver has not started.";
    private volatile bool _isInterrupted;

    /// <summary>Why it receives nothing now; null while it receives.</summary>
    public string? Fault => _fault;

    public Task Ready(ReceiveEndpointReady ready)
    {
        _fault = null;
        _isInterrupted = false;
        Log.Receiving(logger, queue);
        return Task.CompletedTask;
    }

    public Task Stopping(ReceiveEndpointStopping stopping)
    {
        _fault = "The receiver has stopped.";
        return Task.CompletedTask;
    }

    public Task Completed(ReceiveEndpointCompleted completed)
    {
        _fault ??= "The receiver's connection ended.";
        return Task.CompletedTask;
    }

    public Task Faulted(ReceiveEndpointFaulted faulted)
    {
        age.Restart();
        var reason = faulted.Exception?.GetBaseException().Message ?? "the connection ended";
        _fault = reason;
        // Called again with each try to connect: one line for a row of them.
        if (!_isInterrupted)
            Log.ReceivingInterrupted(logger, queue, reason);
        _isInterrupted = true;
        return Task.CompletedTask;
    }
}
