using System.Buffers;
using BatchKit.Transports;

namespace MudServer.Telnet;

/// <summary>Renders messages so that the prompt always comes last.</summary>
/// <remarks>A line that arrives while a prompt shows starts anew below it, and the prompt follows.</remarks>
internal sealed class PromptKeeper(bool sendsGoAhead)
{
    private readonly Lock _lock = new();

    // Guarded by the lock: the reader tells of lines, the transport of output.
    private byte[] _prompt = [];
    private bool _isPromptShown;
    private int _unansweredLines;

    /// <summary>The user ended a line, so the cursor is below the prompt and an answer is on its way.</summary>
    public void NoteLine()
    {
        lock (_lock)
        {
            _isPromptShown = false;
            _unansweredLines++;
        }
    }

    public void Append(IBufferWriter<byte> output, BatchMessage message)
    {
        lock (_lock)
        {
            if (message.Kind == MessageKind.Prompt)
            {
                if (!message.Payload.Span.SequenceEqual(_prompt))
                    _prompt = message.Payload.ToArray();
                _unansweredLines = Math.Max(0, _unansweredLines - 1);
                AppendPrompt(output);
                return;
            }

            if (_isPromptShown)
                output.Write("\r\n"u8);
            _isPromptShown = false;
            output.Write(message.Payload.Span);
        }
    }

    /// <summary>Ends what was appended together: brings the prompt back, unless an answer that ends with one is on its way.</summary>
    public void End(IBufferWriter<byte> output)
    {
        lock (_lock)
        {
            if (!_isPromptShown && _unansweredLines == 0 && _prompt.Length > 0)
                AppendPrompt(output);
        }
    }

    private void AppendPrompt(IBufferWriter<byte> output)
    {
        if (_isPromptShown)
            output.Write("\r\n"u8);
        output.Write(_prompt);
        if (sendsGoAhead)
            output.Write([TelnetCode.Interpret, TelnetCode.GoAhead]);
        _isPromptShown = true;
    }
}
