namespace BatchKit.Broadcast.Telnet;

/// <summary>Whether a client shows what its user types. It does not while the server offers to echo (ECHO, RFC 857), which it does only to hide input.</summary>
/// <remarks>
/// It follows RFC 1143, but a change does not wait for the client's answer to the one before, because it would lose its place in the output. The answers come in the order of the
/// requests, so that none of them is taken for a new request.
/// </remarks>
internal sealed class TelnetEcho
{
    // Guards all fields. Held while a command is queued, so that the commands of the sends and of the reader leave in the order of the changes.
    private readonly Lock _lock = new();
    private bool _isWanted;
    private bool _speaksTelnet;

    // What the client was told last, and how many of its answers are missing: WILL and WONT take turns.
    private bool _isOn;
    private int _unanswered;

    /// <summary>True while the client has agreed to show nothing.</summary>
    public bool IsAgreed
    {
        get
        {
            lock (_lock)
                return _isOn && _unanswered == 0;
        }
    }

    /// <summary>Hides or shows what the user types, after all that was sent before.</summary>
    public void Tell(bool isHidden, ClientConnection connection)
    {
        lock (_lock)
        {
            _isWanted = isHidden;
            if (TryTurnLocked())
                connection.SendControl(CommandFor(_isOn));
        }
    }

    /// <summary>Notes that the client has sent its first command, and tells it what it was not told before.</summary>
    public void Begin(TelnetAnswers answers)
    {
        lock (_lock)
        {
            _speaksTelnet = true;
            if (TryTurnLocked())
                AnswerLocked(answers);
        }
    }

    /// <summary>Handles DO or DONT.</summary>
    public void Receive(bool agrees, TelnetAnswers answers)
    {
        lock (_lock)
        {
            if (_unanswered > 0)
            {
                ReceiveAnswerLocked(agrees);
            }
            else if (agrees != _isOn)
            {
                _isOn = agrees && _isWanted;
                AnswerLocked(answers);
            }
        }
    }

    private bool TryTurnLocked()
    {
        if (!_speaksTelnet || _isOn == _isWanted)
            return false;
        _isOn = _isWanted;
        _unanswered++;
        return true;
    }

    private void ReceiveAnswerLocked(bool agrees)
    {
        var isToWill = _unanswered % 2 == 1 == _isOn;
        if (isToWill == agrees)
        {
            _unanswered--;
            return;
        }

        // A client that refused WILL shows everything already: it does not answer the WONT behind it. The same holds for one that agrees to the WILL behind an unanswered WONT.
        if (isToWill)
            _isOn &= _unanswered > 1;
        if (isToWill || _unanswered > 1)
            _unanswered = Math.Max(0, _unanswered - 2);
    }

    private void AnswerLocked(TelnetAnswers answers)
    {
        answers.Add(CommandFor(_isOn));
        answers.Flush();
    }

    private static ReadOnlySpan<byte> CommandFor(bool isOn) =>
        isOn ? [TelnetCode.Interpret, TelnetCode.Will, TelnetCode.EchoOption] : [TelnetCode.Interpret, TelnetCode.Wont, TelnetCode.EchoOption];
}
