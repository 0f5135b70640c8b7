namespace MudServer.Softcode;

/// <summary>The computing that one player, or all players together, may use over time. It is a budget that refills, so that heavy softcode of some players takes little time from the others.</summary>
internal sealed class SoftcodeAllowance(int maxUnits, int unitsPerSecond, TimeProvider timeProvider)
{
    private double _units = maxUnits;
    private long _refilledAt = timeProvider.GetTimestamp();

    /// <summary>The units that are available now.</summary>
    public double Available
    {
        get
        {
            var now = timeProvider.GetTimestamp();
            _units = Math.Min(maxUnits, _units + (timeProvider.GetElapsedTime(_refilledAt, now).TotalSeconds * unitsPerSecond));
            _refilledAt = now;
            return _units;
        }
    }

    public void Spend(double units) => _units -= units;
}
