namespace BatchKit.Dispatch;

/// <summary>Finds the batch for which a send keeps failing: each further attempt has the first half of the batches among which it must be, so that the order holds.</summary>
/// <remarks>So a batch that makes every send fail is alone after log2 n attempts, and is given up alone. Only the partition's sender uses it.</remarks>
internal struct SendHalving
{
    // The first failures are mostly the connection's: in the second and a half that these take by default it mostly comes back, and what a scope held still leaves in one send.
    private const int FailuresBefore = 4;

    // So many batches that were given up one by one, without an acknowledgement between, mean that the route is down and not that they are bad.
    private const int MaxGivenUpAlone = 4;

    // Of the first batches one must be the cause; zero when there is no reason to halve.
    private int _suspects;
    private int _givenUpAlone;
    private bool _hasAcknowledged;

    /// <summary>True when nothing was acknowledged for so long that an attempt's batches that are too old are given up, alone or not.</summary>
    public readonly bool IsRouteDown => _givenUpAlone >= MaxGivenUpAlone;

    /// <summary>True while only the first batches are tried, to tell bad batches from a route that is down.</summary>
    public readonly bool IsProbing => _givenUpAlone > 0 && (!_hasAcknowledged || IsRouteDown);

    /// <summary>When the first send that failed began, coarsely.</summary>
    public long BeganAt { get; private set; }

    /// <summary>The route's failures begin.</summary>
    /// <param name="beganAt">When the send that failed began.</param>
    public void Begin(long beganAt) => (BeganAt, _suspects, _givenUpAlone, _hasAcknowledged) = (beganAt, 0, 0, false);

    /// <summary>Batches were acknowledged, or refused by name: they are not the cause.</summary>
    /// <param name="batches">How many.</param>
    /// <param name="left">How many batches the send still has.</param>
    /// <returns>How many of them the next attempt has.</returns>
    public int Acknowledge(int batches, int left)
    {
        _givenUpAlone = 0;
        _hasAcknowledged = true;
        // What busy receivers hold back has left the send too.
        _suspects = Math.Clamp(_suspects - batches, 0, left);
        return _suspects == 0 ? left : HalfOf(_suspects);
    }

    /// <summary>What was too old was given up: a batch that failed alone, or more when the route is down.</summary>
    /// <inheritdoc cref="Acknowledge"/>
    public int GiveUp(int left)
    {
        _givenUpAlone++;
        _suspects = 0;
        if (_hasAcknowledged && !IsRouteDown)
            return left;

        // Twice as many each time: a route that is down is known after log2 n attempts, and bad batches take about as many others along as they are.
        return Math.Min(left, 1 << Math.Clamp(_givenUpAlone - MaxGivenUpAlone + 1, 0, 30));
    }

    /// <summary>An attempt failed.</summary>
    /// <param name="suspects">How many batches of the attempt are not decided.</param>
    /// <param name="left">How many batches the send has.</param>
    /// <param name="failures">How many consecutive attempts have failed.</param>
    /// <param name="isTooOld">True when the first batch would be given up if it failed alone.</param>
    /// <returns>How many batches the next attempt has.</returns>
    public int Fail(int suspects, int left, int failures, bool isTooOld)
    {
        if (failures < FailuresBefore && _suspects == 0 && !isTooOld)
            return left;
        _suspects = suspects;
        return isTooOld && !_hasAcknowledged ? 1 : HalfOf(suspects);
    }

    private static int HalfOf(int batches) => Math.Max(1, batches / 2);
}
