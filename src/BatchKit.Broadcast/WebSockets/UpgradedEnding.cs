using Microsoft.AspNetCore.Http;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Knows whether an upgraded connection may still be aborted.</summary>
internal sealed class UpgradedEnding(HttpContext context)
{
    // Guards all fields, and is held during the abort: once the request has ended, its context serves another one.
    private readonly Lock _lock = new();
    private bool _isFinished;
    private bool _isRead;
    private bool _isOver;
    private bool _isAborted;

    /// <summary>Cancelled when the connection is gone.</summary>
    public CancellationToken RequestAborted { get; } = context.RequestAborted;

    /// <summary>Says that the last byte was written.</summary>
    public void NoteFinish()
    {
        lock (_lock)
            _isFinished = true;
    }

    /// <summary>Says whether somebody waits for what the client sends.</summary>
    public void NoteInput(bool isRead)
    {
        lock (_lock)
            _isRead = isRead;
    }

    /// <summary>Ends the connection at once, unless it has ended in order: then an abort would lose what the server has still to send.</summary>
    public void Abort()
    {
        lock (_lock)
        {
            if (_isOver || (_isFinished && !_isRead))
                return;
            _isAborted = true;
            context.Abort();
        }
    }

    /// <summary>Fails once the connection was aborted: what a stream took then was not sent.</summary>
    public void ThrowIfAborted()
    {
        lock (_lock)
        {
            if (_isAborted)
                throw new IOException("The connection was ended.");
        }
    }

    /// <summary>Says that the request is about to end.</summary>
    public void NoteEnd()
    {
        lock (_lock)
            _isOver = true;
    }
}
